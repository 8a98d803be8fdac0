#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What documents name is there: files of the tree in `backquotes`, their functions (`src/a.c:function`), links.

A document that names what has moved sends its reader astray, and nobody notices.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMED = re.compile(r"`((?:src|tests|tools|docs)/[\w./-]+\.\w+)(?::(\w+))?`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def defines(path, function):
    """The name at the start of a definition: clang-format leaves its type on the same line, or the one above."""
    return re.search(rf"^[a-z][^;=\n]*\b{function}\([^;]*?\)\n\{{", path.read_text(), re.MULTILINE)


def problems_of(document):
    text = document.read_text()
    name = document.relative_to(ROOT)
    for path, function in NAMED.findall(text):
        if "NAME" in path:  # docs/adding.md: any name
            continue
        if not (ROOT / path).exists():
            yield f"{name}: there is no {path}"
        elif function and not defines(ROOT / path, function):
            yield f"{name}: {path} has no function {function}()"
    for link in LINK.findall(text):
        if "://" not in link and not (document.parent / link).exists():
            yield f"{name}: the link {link} leads nowhere"


def main():
    documents = [path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.name != "CHANGELOG.md"]
    problems = [problem for document in sorted(documents) for problem in problems_of(document)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
