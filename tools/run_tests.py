#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test program of a build directory, several at a time, and adds up what they say.

A program ends with "N passed, N failed". One that ends otherwise, dies or hangs counts as one
failure. Every file of tests/wire is a program too: pytest runs it against the servers of the same build.
So is every check of the sources (tools/check_*) that needs no build: it passes when it ends with 0.
What is skipped is told with its reason, and counted apart.

Each has a directory of its own, which is removed when it is over. For tests/wire it is in memory where there
is enough of it: most of their time would go into syncs of servers that are killed a moment later. What is
about the disk has a disk.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] \S+: (.*)", re.MULTILINE)
CHECKS_OF_BUILDS = {"check_tidy"}
CHECK_SKIPPED = 77
# Of tests/wire, what shall meet a real disk.
ABOUT_DISKS = re.compile("crash|disk|durability|faults|journal|kill|life|old_directories|persist|room|storm|tools|wal")
# They begin first, so that none is left alone at the end.
LONG = ("model_store", "fault_nth", "fault_kill", "contract_engine_model", "wire_storm", "wire_engine_faults", "wire_full_disk",
        "wire_make", "wire_room", "wire_long_replies", "wire_build", "wire_tile_range", "wire_tile_model", "wire_fs_long")
MEMORY = pathlib.Path("/dev/shm")
MEMORY_BYTES_MIN = 8 << 30  # that is available: files of tests and their servers share it
# A job in the background has SIGINT ignored, and gives that on. A test begins with signals as they are
# in a terminal.
FRESH_SIGNALS = ["/usr/bin/env", "--default-signal"]


class Counts(typing.NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list = []  # of skips


def environment(build):
    env = dict(os.environ)
    supp = ROOT / "tools" / "tsan.supp"
    env.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=1:strict_string_checks=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    env.setdefault("TSAN_OPTIONS", f"suppressions={supp}:second_deadlock_stack=1")
    env["TERRACE_BUILD"] = str(build)
    env["TERRACED"] = str(build / "terraced")
    env["TERRACE"] = str(build / "terrace")
    return env


def memory_available():
    """Bytes; 0 if no files can be kept there."""
    if not os.access(MEMORY, os.W_OK):
        return 0
    fields = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    room = os.statvfs(MEMORY)
    return min(int(fields["MemAvailable"].split()[0]) * 1024, room.f_bavail * room.f_frsize)


def run(command, env, timeout, directories=None):
    """Returns (exit code or None for a timeout, output, seconds)."""
    begin = time.monotonic()
    if not os.access(command[0], os.X_OK):
        return 127, f"{command[0]} was not built", 0.0
    directory = tempfile.mkdtemp(prefix="terrace-run-", dir=directories)
    try:
        if command[:len(PYTEST)] == PYTEST:
            command = [*command, f"--basetemp={directory}/pytest"]
        return *run_in(command, {**env, "TERRACE_TEST_DIR": directory}, timeout), time.monotonic() - begin
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run_in(command, env, timeout):
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*FRESH_SIGNALS, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            cwd=ROOT, env=env, start_new_session=True)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:  # the group is the test's own: nothing it started outlives it
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        out.seek(0)
        text = out.read().decode(errors="replace")
    return code, text


def counts_of_program(code, text):
    found = CLOSING.findall(text)
    passed, failed = map(int, found[-1]) if found else (0, 0)
    if (code != 0 or not found) and failed == 0:
        failed = 1
    return Counts(passed, failed)


def counts_of_pytest(code, text):
    summary = text.strip().splitlines()[-1] if text.strip() else ""
    words = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", summary)}
    failed = words.get("failed", 0) + words.get("error", 0) + words.get("errors", 0)
    if code not in (0, 5) and failed == 0:  # 5: no tests were collected
        failed = 1
    skips = collections.Counter()
    for count, reason in SKIPPED.findall(text):
        skips[reason] += int(count)
    return Counts(words.get("passed", 0), failed, words.get("skipped", 0),
                  [f"{count} skipped: {reason}" for reason, count in skips.items()])


def counts_of_check(code, text):
    if code == CHECK_SKIPPED:
        return Counts(skipped=1, reasons=[f"1 skipped: {text.strip()}"])
    return Counts(passed=1) if code == 0 else Counts(failed=1)


def report(name, code, text, seconds, counts):
    state = "ok  " if counts.failed == 0 else "FAIL"
    print(f"{state} {name:<40} {counts.passed:5} passed {counts.failed:3} failed {seconds:8.2f} s",
          *counts.reasons, sep="\n     ", flush=True)
    if counts.failed:
        why = "timed out" if code is None else f"ended with {code}"
        lines = text.splitlines()
        if len(lines) > 400:
            lines = lines[:100] + ["..."] + lines[-300:]
        print("\n".join("    " + line for line in lines))
        print(f"    {name} {why}", flush=True)


def programs_of(build):
    """(name, command, who counts)."""
    files = sorted((ROOT / "tests" / "wire").glob("test_*.py"), key=lambda file: -file.stat().st_size)
    for file in files:
        yield "wire_" + file.stem.removeprefix("test_"), [*PYTEST, str(file)], counts_of_pytest
    for file in sorted((ROOT / "tools").glob("check_*")):
        if file.stem not in CHECKS_OF_BUILDS:
            yield file.stem, [str(file)], counts_of_check
    for line in (build / "tests.txt").read_text().splitlines():
        name, *command = line.split("\t")
        yield name, command, counts_of_program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", help="run only what has one of these in its name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900)
    args = parser.parse_args()
    build = args.build.resolve()
    env = environment(build)
    timeout = args.timeout * (20 if env.get("TERRACE_LONG") else 1)
    passed = failed = skipped = 0
    programs = [program for program in programs_of(build)
                if not args.parts or any(part in program[0] for part in args.parts)]
    programs.sort(key=lambda program: program[0] not in LONG)
    if not programs:
        print(f'run_tests.py: no test program has "{" ".join(args.parts)}" in its name', file=sys.stderr)
        return 2

    in_memory = not env.get("TERRACE_LONG") and memory_available() >= MEMORY_BYTES_MIN
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {}
        for name, command, counts_of in programs:
            directories = MEMORY if in_memory and name.startswith("wire_") and not ABOUT_DISKS.search(name) else None
            running[pool.submit(run, command, env, timeout, directories)] = name, counts_of
        for future in concurrent.futures.as_completed(running):
            name, counts_of = running[future]
            code, text, seconds = future.result()
            counts = counts_of(code, text)
            report(name, code, text, seconds, counts)
            passed, failed, skipped = passed + counts.passed, failed + counts.failed, skipped + counts.skipped

    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
