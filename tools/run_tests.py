#!/usr/bin/python3
"""Runs every test program of a build directory, several at a time, and adds up what they say.

A program ends with "N passed, N failed". One that ends otherwise, dies or hangs counts as one
failure. Every file of tests/wire is a program too: pytest runs it against the servers of the same build.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]


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


def run(command, env, timeout):
    """Returns (exit code or None for a timeout, output, seconds)."""
    begin = time.monotonic()
    if not os.access(command[0], os.X_OK):
        return 127, f"{command[0]} was not built", 0.0
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT,
            env=env, start_new_session=True)
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
    return code, text, time.monotonic() - begin


def counts_of_program(code, text):
    found = CLOSING.findall(text)
    passed, failed = map(int, found[-1]) if found else (0, 0)
    if (code != 0 or not found) and failed == 0:
        failed = 1
    return passed, failed


def counts_of_pytest(code, text):
    summary = text.strip().splitlines()[-1] if text.strip() else ""
    words = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|errors?)\b", summary)}
    failed = words.get("failed", 0) + words.get("error", 0) + words.get("errors", 0)
    if code not in (0, 5) and failed == 0:  # 5: no tests were collected
        failed = 1
    return words.get("passed", 0), failed


def report(name, code, text, seconds, passed, failed):
    state = "ok  " if failed == 0 else "FAIL"
    print(f"{state} {name:<40} {passed:5} passed {failed:3} failed {seconds:8.2f} s", flush=True)
    if failed:
        why = "timed out" if code is None else f"ended with {code}"
        lines = text.splitlines()
        if len(lines) > 400:
            lines = lines[:100] + ["..."] + lines[-300:]
        print("\n".join("    " + line for line in lines))
        print(f"    {name} {why}", flush=True)


def programs_of(build):
    """(name, command, who counts); the long ones of tests/wire first, so that none is left alone at the end."""
    files = sorted((ROOT / "tests" / "wire").glob("test_*.py"), key=lambda file: -file.stat().st_size)
    for file in files:
        yield "wire_" + file.stem.removeprefix("test_"), [*PYTEST, str(file)], counts_of_pytest
    for line in (build / "tests.txt").read_text().splitlines():
        name, *command = line.split("\t")
        yield name, command, counts_of_program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", help="run only what has one of these in its name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300)
    args = parser.parse_args()
    build = args.build.resolve()
    env = environment(build)
    timeout = args.timeout * (20 if env.get("TERRACE_LONG") else 1)
    passed_sum = failed_sum = 0

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(run, command, env, timeout): (name, counts_of)
                   for name, command, counts_of in programs_of(build)
                   if not args.parts or any(part in name for part in args.parts)}
        for future in concurrent.futures.as_completed(running):
            name, counts_of = running[future]
            code, text, seconds = future.result()
            passed, failed = counts_of(code, text)
            report(name, code, text, seconds, passed, failed)
            passed_sum, failed_sum = passed_sum + passed, failed_sum + failed

    print(f"{passed_sum} passed, {failed_sum} failed")
    return 1 if failed_sum else 0


if __name__ == "__main__":
    sys.exit(main())
