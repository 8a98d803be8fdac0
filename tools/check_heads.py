#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What every file says at its top: its licence, and what it is.

The first line, or the one behind #!, is an SPDX line. The next line of a .c, .cc or .h file is
"/* name.c - what it is". A unit test that mirrors a source file (tests/unit/base/test_buf.c and
src/base/buf.c) needs no such sentence: its name says it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LICENCE = re.compile(r"(//|#) SPDX-License-Identifier: Apache-2\.0")
SUFFIXES = {".c", ".cc", ".h", ".def", ".proto", ".js", ".py", ".sh"}
ALSO = [".ci/run", "CMakeLists.txt", "Makefile"]


def files():
    for top in ("src", "tests", "tools"):
        yield from (path for path in (ROOT / top).rglob("*") if path.suffix in SUFFIXES)
    yield from (ROOT / name for name in ALSO)


def mirrors_a_source(name):
    match = re.fullmatch(r"tests/unit/([\w/]+)/test_(\w+)\.c", name)
    return match and any(next((ROOT / "src" / match[1]).rglob(match[2] + end), None) for end in (".c", ".h"))


def problems_of(path):
    name = str(path.relative_to(ROOT))
    with path.open() as file:
        lines = [file.readline().rstrip("\n") for _ in range(2)]
    if lines[0].startswith("#!"):
        lines = lines[1:]
    if not LICENCE.fullmatch(lines[0]):
        yield f"{name}: the first line is no SPDX line"
    elif path.suffix in (".c", ".cc", ".h") and not mirrors_a_source(name):
        if not lines[1].startswith(f"/* {path.name} - "):
            yield f'{name}: the second line does not begin with "/* {path.name} - "'


def main():
    problems = [problem for path in sorted(files()) for problem in problems_of(path)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
