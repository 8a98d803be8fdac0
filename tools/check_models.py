#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models are known by their tables only: types/, command/ and server/ name nothing of a model's.

What a model's headers declare (functions, structs, enums, with a _ in their names) must not be in the code
of these folders. Includes are held by check_layers.py. Comments and texts may speak of models.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src"
BELOW = ("base", "store", "types", "command")
LOOKED_AT = ("types", "command", "server")
NAME = re.compile(r"\b[a-z][a-z0-9]*_\w+\b")
DECLARED = re.compile(r"\b(?:struct|enum)\s+([a-z]\w*_\w+)|\b([a-z]\w*_\w+)\(")
STATIC = re.compile(r"^static\b[^;={]*?\b([a-z]\w*_\w+)\(", re.MULTILINE)  # a name of its own
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def code_of(path):
    """The text with comments and strings blanked, line for line."""
    return NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())


def declared(folders):
    names = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.h"):
            names |= {name for found in DECLARED.findall(code_of(path)) for name in found if name}
    return names


def main():
    names = declared(["models"]) - declared(BELOW) - declared(["server"])
    problems = []
    for folder in LOOKED_AT:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            code = code_of(path)
            others = names - set(STATIC.findall(code))
            for number, line in enumerate(code.splitlines(), 1):
                problems += [f"{path}:{number}: {name} is a model's" for name in NAME.findall(line) if name in others]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
