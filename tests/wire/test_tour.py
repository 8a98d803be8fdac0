# SPDX-License-Identifier: Apache-2.0
"""The tour of README.md is run as it stands there, its programs included.

"..." is any text; long numbers and those of INFO are different every time. What a program prints
stands behind the line that prints it, as a comment.
"""
import os
import pty
import re
import shlex
import shutil
import subprocess

import pytest

from conftest import ROOT, TERRACE
from diff.places import free_port

BLOCK = re.compile(r"```(console|python|js)\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"(?:print|console\.log)\(.*\);? *(?:#|//) (.*)")
HTTP_PORT = "8080"
# The tour has these: what every Debian has, and what the README's first lines install.
PROGRAMS = "bash cmp curl cut echo grep head kill mkdir printf sed sh sleep sqlite3 tr".split()


def steps_of(text):
    """(command, expected output) of every console block; a program is one command."""
    for kind, block in BLOCK.findall(text):
        if kind != "console":
            yield f"{kind}\n{block}", "\n".join(PRINTED.findall(block))
            continue
        command, output = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, "\n".join(output)
                command, output = line[2:], []
            else:
                output.append(line)
        if command:
            yield command, "\n".join(output)


@pytest.fixture
def path(tmp_path):
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in PROGRAMS:
        (directory / name).symlink_to(shutil.which(name))
    return str(directory)


def run_in_terminal(command, path):
    master, slave = pty.openpty()
    process = subprocess.Popen(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL, stdout=slave,
                               stderr=slave, cwd=ROOT, env={**os.environ, "PATH": path})
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            part = b""
        if not part:
            break
        text += part
    os.close(master)
    process.wait(100)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode())
    text = re.sub(r"\r+\n", "\n", text)
    return re.sub(r"[^\n]*\r", "", text)  # what was drawn over


def run_python(text):
    done = subprocess.run(["/usr/bin/python3", "-c", text], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def normal(text):
    text = re.sub(r"[0-9a-f]{12,}|\d{6,}", "N", text.strip())
    return re.sub(r"^(\w+):\d+$", r"\1:N", text, flags=re.MULTILINE)


def assert_like(expected, got):
    expected, got = normal(expected), normal(got)
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    assert re.fullmatch(pattern, got, re.DOTALL), f"expected:\n{expected}\ngot:\n{got}"


def test_the_readme_tells_the_truth(start, path):
    server = None
    count = 0
    http_port = str(free_port())
    for command, expected in steps_of((ROOT / "README.md").read_text()):
        if command == "make test":
            continue
        if command.startswith("make run"):
            if server:
                server.kill()
            words = shlex.split(command.partition("ARGS=")[2])
            words = shlex.split(words[0].replace(HTTP_PORT, http_port)) if words else []
            directory = str(server.dir) if server else "./data"
            server = start(*(word.replace("./data", directory) for word in words))
            got = server.banner
        elif command.startswith("js\n"):
            continue  # test_the_programs_of_the_readme_print_what_it_says
        elif command.startswith("python\n"):
            got = run_python(command.replace("7379", str(server.port)).partition("\n")[2])
        else:
            command = command.replace("7379", str(server.port)).replace(HTTP_PORT, http_port)
            command = command.replace("build/terrace ", f"{TERRACE} ")
            command = command.replace("./data", str(server.dir))
            got = run_in_terminal(command, path)
            if command.startswith("kill "):
                server.process.wait(100)
        expected = expected.replace("7379", str(server.port)).replace(HTTP_PORT, http_port)
        expected = expected.replace("build/terrace ", f"{TERRACE} ")
        assert_like(expected.replace("./data", str(server.dir)), got)
        count += 1
    assert count >= 30


def test_the_programs_of_the_readme_print_what_it_says(server, ioredis):
    count = 0
    for command, expected in steps_of((ROOT / "README.md").read_text()):
        kind, _, text = command.replace("7379", str(server.port)).partition("\n")
        if kind in ("python", "js"):
            assert_like(expected, run_python(text) if kind == "python" else ioredis("-e", text))
            count += 1
    assert count == 2
