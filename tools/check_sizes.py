#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""70 lines a function, 1000 lines a file, 100 columns; 120 columns in documents.

In documents rows of tables and blocks of code may be longer: they cannot be wrapped.

tools/sizes.allow lists existing excess, one "path lines" or "path:function lines" a line. The
listed number has to be the real one, so it can only shrink; longer than listed is an error, and so
is a listing that is no longer needed.
"""
import pathlib
import re
import sys

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000
COLUMNS_MAX = 100
DOCUMENT_COLUMNS_MAX = 120
NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
KEYWORDS = {"__attribute__", "CLEANUP", "NODISCARD"}


def functions_of(lines):
    """Yields (name, body lines) of every function: clang-format puts its braces in column one."""
    start = None
    for index, line in enumerate(lines):
        if line.rstrip() == "{":
            start = index
        elif line.rstrip() == "}" and start is not None:
            head = start - 1
            while head > 0 and lines[head - 1].strip() and lines[head][:1] in " \t":
                head -= 1
            text = " ".join(lines[head:start])
            names = [n for n in NAME.findall(text) if n not in KEYWORDS]
            name = names[0] if names else f"line {start}"
            if name == "TEST":
                name = text[text.index("(") + 1 : text.index(")")]
            yield name, index - start + 1
            start = None


def document_problems(root):
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        is_code = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            is_code ^= line.startswith("```")
            if len(line) > DOCUMENT_COLUMNS_MAX and not is_code and not line.startswith(("|", "    ")):
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    allowed = {}
    for line in (root / "tools/sizes.allow").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, count = line.rsplit(maxsplit=1)
            allowed[name] = int(count)
    excess, problems = {}, list(document_problems(root))
    paths = [p for top in ("src", "tests") for p in (root / top).rglob("*.[ch]")]
    for path in sorted(paths):
        name = str(path.relative_to(root))
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                problems.append(f"{name}:{number}: {len(line)} columns")
        if len(lines) > FILE_LINES_MAX:
            excess[name] = len(lines)
        for function, count in functions_of(lines):
            if count > FUNCTION_LINES_MAX:
                excess[f"{name}:{function}"] = count
    for name, count in sorted(excess.items()):
        if count > allowed.get(name, 0):
            problems.append(f"{name}: {count} lines")
    for name, count in sorted(allowed.items()):
        if excess.get(name, 0) < count:
            problems.append(f"tools/sizes.allow: {name} is {excess.get(name, 'short')} now: lower it")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
