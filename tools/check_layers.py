#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point one way: base <- store <- types <- command <- models/* <- server <- main.

The store's rooms have an order of their own: engine, journal <- hot, flush <- rows; the headers beside
the rooms are the store's doors, and no room below rows/ uses them.
The server knows models by their tables (server/models.def) and the rows of their commands.
The client (cli/) uses base/, store/ and the formats: a few files of others.
Includes between quotes are written from src/, so each names its layer.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src"
MODELS = {"models/landing", "models/tile", "models/fs", "models/partition"}
BELOW_MODELS = {"base", "store", "types", "command"}
ALLOWED = {
    "base": {"base"},
    "store": {"base", "store"},
    "types": {"base", "store", "types"},
    "command": BELOW_MODELS,
    **{name: BELOW_MODELS | {name} for name in MODELS},
    "script": BELOW_MODELS | {"script"},
    "server": BELOW_MODELS | {"script", "server"},
    "cli": {"base", "store", "cli"},
}
ALLOWED_FILES = {
    "server": {str(path.relative_to(ROOT)) for path in ROOT.glob("models/*/cmd_*.def")},
    "cli": {"server/resp.h", "command/resp_out.h", "server/commands.def", "types/spaces.h",
            "types/key.h", "types/meta.h", "models/fs/entry.h",
            "models/tile/tilekey.h", "models/tile/value.h", "models/tile/format.h"},
}
STORE_ROOMS = {
    "engine": {"engine"},
    "journal": {"journal"},
    "hot": {"engine", "hot"},
    "flush": {"engine", "journal", "flush"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def layer_of(parts):
    return "/".join(parts[:2]) if parts[0] == "models" else parts[0]


def problems_of(root, path):
    layer = layer_of(path.relative_to(root).parts)
    if layer == "main.c":
        return
    if layer not in ALLOWED:
        yield f"{path}: folder {layer}/ is not a known layer"
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        if "/" not in name or not (root / name).exists():
            yield f'{path}:{number}: "{name}" is not written from src/'
        elif layer_of(name.split("/")) not in ALLOWED[layer] and name not in ALLOWED_FILES.get(layer, ()):
            yield f'{path}:{number}: {layer}/ may not include "{name}"'
        else:
            yield from room_problems_of(path.relative_to(root), number, name)


def room_problems_of(path, number, name):
    room = path.parts[1]
    if path.parts[0] == "store" and room in STORE_ROOMS and name.startswith("store/"):
        if name.split("/")[1] not in STORE_ROOMS[room]:
            yield f'{path}:{number}: store/{room}/ may not include "{name}"'


def banned_problems_of(path):
    includes = [m.group(1) for m in map(INCLUDE.match, path.read_text().splitlines()) if m]
    includes = [name for name in includes if not name.endswith(".def")]  # lists, where they are used
    if not includes or includes[-1] != "base/banned.h":
        yield f'{path}: the last include is not "base/banned.h"'


def main():
    root = ROOT
    problems = []
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".c", ".cc", ".h", ".def")):
        problems += problems_of(root, path)
        if path.suffix == ".c":
            problems += banned_problems_of(path)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
