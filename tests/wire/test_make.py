# SPDX-License-Identifier: Apache-2.0
"""The first minutes: `make` on machines that have some of the tools, or none of them.

The Makefile, CMakeLists.txt and tools/ are the real ones, in a tree whose only source is a server that
prints its arguments: what is tested is who is asked to build, not what is built. A machine is a
directory of links to the programs of this one, some of them missing.
"""
import os
import re
import shutil
import socket
import subprocess

import pytest

from conftest import ROOT

SERVER = """#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        printf("<%s>", argv[i]);
    return printf("\\n") < 0;
}
"""


class Machine:
    def __init__(self, root, without=()):
        self.tree = root / "terrace"
        self.bin = root / "bin"
        self.bin.mkdir()
        for directory in ("/usr/bin", "/bin", "/usr/sbin"):
            for name in os.listdir(directory):
                if name not in without and not (self.bin / name).is_symlink():
                    (self.bin / name).symlink_to(os.path.join(directory, name))
        (self.tree / "src/models/fs").mkdir(parents=True)
        (self.tree / "build-node/node_modules/ioredis").mkdir(parents=True)
        for name in ("Makefile", "CMakeLists.txt", "CMakePresets.json"):
            shutil.copy(ROOT / name, self.tree)
        shutil.copytree(ROOT / "tools", self.tree / "tools")
        shutil.copy(ROOT / "src/models/fs/file_info.proto", self.tree / "src/models/fs")
        named = re.findall(r"\btests/wire/\w+\.c", (ROOT / "CMakeLists.txt").read_text())
        for name in ("src/main.c", "tests/support/test.c", *named):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(SERVER)

    def program(self, name, text):
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def links(self, name, to):
        (self.bin / name).symlink_to(to)

    def run(self, *command, code=0, variables=None, **options):
        env = {**os.environ, "PATH": str(self.bin), **(variables or {})}
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # `make test` runs this
            env.pop(name, None)
        done = subprocess.run(command, cwd=self.tree, env=env, text=True, timeout=250,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **options)
        assert done.returncode == code, done.stdout
        return done.stdout

    def generator(self, build):
        for line in (self.tree / build / "CMakeCache.txt").read_text().splitlines():
            if line.startswith("CMAKE_GENERATOR:"):
                return line.partition("=")[2]
        return None


APT_GET = """#!/bin/sh
# Installs what the test's machine lacks.
echo "$@" >> {log}
case "$*" in *ninja-build*) ln -s {ninja} {bin}/ninja ;; esac
"""


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def bare_machine(tmp_path):
    """Has no ninja; apt-get brings one."""
    machine = Machine(tmp_path, without=("ninja", "apt-get"))
    machine.program("apt-get", APT_GET.format(log=tmp_path / "apt.log", bin=machine.bin,
                                              ninja=shutil.which("ninja")))
    machine.program("sudo", '#!/bin/sh\nexec "$@"\n')
    return machine


def test_make_run_works_twice_where_ninja_is_installed_by_the_first(bare_machine):
    for _ in range(2):
        assert "<--port><7379><--dir><./data>" in bare_machine.run("make", "run")
    assert "ninja-build" in (bare_machine.bin.parent / "apt.log").read_text()


def test_make_test_first_run_then_and_bench_last_all_work(bare_machine):
    (bare_machine.tree / "tools" / "bench.sh").write_text('#!/bin/sh\necho "benched $1"\n')
    (bare_machine.tree / "tools" / "run_tests.py").write_text('print("0 passed, 0 failed")\n')
    for _ in range(2):
        assert "0 passed, 0 failed" in bare_machine.run("make", "test")
        assert "<--port><7379>" in bare_machine.run("make", "run")
        assert "benched build" in bare_machine.run("make", "bench")


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_a_build_directory_of_either_generator_is_built_on(machine, generator):
    machine.run("cmake", "--preset", "release", "-G", generator)
    for _ in range(2):
        assert "<--port><7379>" in machine.run("make", "run")
    assert machine.generator("build") == generator


def test_a_build_directory_whose_ninja_is_gone_is_configured_anew(machine):
    ninja = shutil.which("ninja")
    (machine.bin / "ninja").unlink()
    machine.links("ninja-build", ninja)  # another name, which cmake finds as well
    machine.run("cmake", "--preset", "release")
    (machine.bin / "ninja-build").unlink()
    machine.links("ninja", ninja)
    assert "<--port><7379>" in machine.run("make", "run")


def test_the_data_directory_of_make_run_may_have_a_space(machine):
    text = machine.run("make", "run", "DIR=./my data")
    assert "<--dir><./my data>" in text
    text = machine.run("make", "run", "DIR=./it's")
    assert "<--dir><./it's>" in text


def test_a_user_who_cannot_install_is_told_the_line_for_root(tmp_path):
    machine = Machine(tmp_path, without=("ninja", "sudo", "id"))
    machine.program("id", "#!/bin/sh\necho 1000\n")
    text = machine.run("make", "run", code=2)
    assert "only root can install packages, and there is no sudo" in text
    assert "    apt-get update && apt-get install -y --no-install-recommends ninja-build\n" in text


def test_a_user_whose_apt_get_fails_is_told_the_line_for_root(bare_machine):
    bare_machine.program("apt-get", "#!/bin/sh\necho no network >&2\nexit 100\n")
    text = bare_machine.run("make", "run", code=2)
    assert "no network" in text and "apt-get update failed" in text
    assert "    apt-get update && apt-get install -y --no-install-recommends ninja-build\n" in text


def test_clang_gets_the_runtime_of_its_own_version(bare_machine):
    bare_machine.program("clang", "#!/bin/sh\n[ \"$1\" = -dumpversion ] && echo 77.1.2\n")
    bare_machine.run("tools/deps.sh", "test")
    assert " libclang-rt-77-dev" in (bare_machine.bin.parent / "apt.log").read_text()


def test_make_bench_installs_what_its_scripts_run(tmp_path):
    machine = Machine(tmp_path, without=("wrk", "curl", "apt-get"))
    machine.program("apt-get", APT_GET.format(log=tmp_path / "apt.log", bin=machine.bin, ninja="/"))
    machine.program("sudo", '#!/bin/sh\nexec "$@"\n')
    machine.run("tools/deps.sh", "bench")
    assert (tmp_path / "apt.log").read_text().endswith(" wrk curl\n")


@pytest.mark.parametrize("answers", [False, True])
def test_make_test_goes_on_where_npm_reaches_nothing(machine, answers):
    """Nobody listens there, or somebody who never answers."""
    shutil.rmtree(machine.tree / "build-node")
    (machine.tree / "tools" / "run_tests.py").write_text('print("0 passed, 0 failed")\n')
    with socket.create_server(("127.0.0.1", 0)) as registry:
        port = registry.getsockname()[1] if answers else 1
        text = machine.run("make", "test", variables={
            "npm_config_registry": f"http://127.0.0.1:{port}/", "NPM_SECONDS": "5" if answers else "300"})
    assert "ioredis could not be installed" in text and "the tests that need it are skipped" in text
    assert ("npm did not answer within 5 s" if answers else "ECONNREFUSED") in text
    assert text.endswith("0 passed, 0 failed\n")
    assert not list(machine.tree.glob("build-node*"))


@pytest.mark.parametrize("version, says, code", [((6, 11), "RocksDB is 6.11 here, and Terrace needs 7.8 or newer", 2),
                                                 ((10, 2), "RocksDB is 10.2 here; the tests have run with", 0)])
def test_the_version_of_rocksdb_is_checked_before_anything_is_built(machine, tmp_path, version, says, code):
    header = tmp_path / "include" / "rocksdb" / "version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define ROCKSDB_MAJOR %d\n#define ROCKSDB_MINOR %d\n#define ROCKSDB_PATCH 1\n" % version)
    text = machine.run("make", "all", code=code, variables={"CMAKE_INCLUDE_PATH": str(tmp_path / "include")})
    assert says in " ".join(text.split())
