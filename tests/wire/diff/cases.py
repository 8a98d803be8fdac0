# SPDX-License-Identifier: Apache-2.0
"""Sequences in a file: redis-cli lines, as the tool prints them."""
import re

from . import gen

WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)
SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


def unescape(text):
    def one(match):
        if match.group(1):
            return bytes([int(match.group(1), 16)])
        return SHORT.get(match.group(2), match.group(2))
    return ESCAPE.sub(one, text.encode("latin-1"))


def read_line(text):
    """Words of one line, and the client that sends it."""
    client = 0
    mark = re.search(r"\s{2,}# (client (\d)|terraced only)\s*$", text)
    if mark:
        client = int(mark.group(2)) - 1 if mark.group(2) else 0
        text = text[:mark.start()]
    words = [unescape(match.group(1)) if match.group(1) is not None else match.group(2).encode("latin-1")
             for match in WORD.finditer(text)]
    return client, tuple(words)


def read_case(lines):
    items = []
    for text in lines:
        if text.strip() and not text.lstrip().startswith("#"):
            items.append(read_line(text.strip()))
    return [gen.RELOAD if args == gen.RELOAD[1] else (client, args) for client, args in items]


def read_cases(text):
    """A file of cases: each begins with a line [name]."""
    cases = {}
    for text_line in text.splitlines():
        if re.fullmatch(r"\[.+\]", text_line.strip()):
            cases[text_line.strip()[1:-1]] = []
        elif cases:
            list(cases.values())[-1].append(text_line)
    return {name: read_case(lines) for name, lines in cases.items()}
