# SPDX-License-Identifier: Apache-2.0
"""Starts the two servers on free loopback ports with directories of their own; stops them by pid."""
import ctypes
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from .places import free_port, new_directory

ROOT = pathlib.Path(__file__).resolve().parents[3]
START_SECONDS = 100
PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG = 1


def terraced_path():
    if os.environ.get("TERRACED"):
        return os.environ["TERRACED"]
    for build in ("build-dev", "build"):
        path = ROOT / build / "terraced"
        if path.exists():
            return str(path)
    return str(ROOT / "build-dev" / "terraced")


def die_with_parent():
    """Runs in the child: a killed test leaves no server behind."""
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A server that writes a line when it is ready."""

    def __init__(self, command, ready, directory):
        self.dir = directory
        self.errors = tempfile.TemporaryFile()
        env = dict(os.environ, LC_ALL="C")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=env, cwd=directory,
                                        preexec_fn=die_with_parent)
        self.said = ""
        end = time.monotonic() + START_SECONDS
        while not ready(self.said):
            have, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65536).decode(errors="replace") if have else ""
            if not part:
                self.stop()
                raise RuntimeError(f"{command[0]} did not start: {self.said}{self.stderr()}")
            self.said += part

    def stderr(self):
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def ended(self):
        """The exit code of a process that is about to end, or None."""
        try:
            return self.process.wait(1)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()
        self.process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def redis_program(name):
    """The redis-server or redis-cli that says what is right: another version says something else."""
    path = os.environ.get(name.upper().replace("-", "_"), name)
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+\.\d+\.\d+", told).group()
    if not version.startswith("7.0."):
        pytest.skip(f"{path} is of Redis {version}, and these compare with 7.0 (REDIS_SERVER and REDIS_CLI name others)")
    return path


class Oracle(Process):
    name = "redis"

    def __init__(self, *args, directory=None):
        self.port = free_port()
        command = [redis_program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                   "--appendonly", "no", "--enable-debug-command", "yes", "--daemonize", "no", "--hz", "500", *args]
        super().__init__(command, lambda said: "Ready to accept connections" in said,
                         directory or new_directory("diff-redis-"))


class Terraced(Process):
    name = "terraced"

    def __init__(self, path, *args, directory=None):
        directory = directory or new_directory("diff-terraced-")
        command = [str(pathlib.Path(path).resolve()), "--port", "0", "--dir", directory + "/data", *args]
        super().__init__(command, lambda said: "stop " in said, directory)
        self.port = int(re.search(r"listens on \S+:(\d+)", self.said).group(1))
