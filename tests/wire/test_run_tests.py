# SPDX-License-Identifier: Apache-2.0
"""`make test` itself: what surrounds a test must neither fail it nor hide it."""
import os
import signal
import subprocess
import sys

from conftest import ROOT
from iofault import BUILD

# A shell that got SIGINT ignored keeps it so, and its children do.
DIES_OF_SIGINT = """sh -c 'kill -INT $$; exit 3'
[ $? -eq 130 ] && echo '1 passed, 0 failed'"""


def runner_module():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import run_tests
    finally:
        sys.path.pop(0)
    return run_tests


def build_of(tmp_path, *lines):
    (tmp_path / "tests.txt").write_text("".join(line + "\n" for line in lines))
    return tmp_path


def run_programs(tmp_path, *lines, preexec_fn=None):
    """Runs the programs of these lines, as the ones of a build directory; (exit code, output)."""
    build = build_of(tmp_path, *lines)
    done = subprocess.run([ROOT / "tools/run_tests.py", build, "program_"], text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=preexec_fn)
    return done.returncode, done.stdout


def program(tmp_path, name, text):
    path = tmp_path / f"{name}.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"program_{name}\t{path}"


def test_a_background_job_whose_sigint_is_ignored_passes_as_well(tmp_path):
    line = program(tmp_path, "int", DIES_OF_SIGINT)
    code, text = run_programs(tmp_path, line,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert code == 0 and text.endswith("\n1 passed, 0 failed\n"), text


def test_a_name_that_no_program_has_is_an_error(tmp_path):
    build = build_of(tmp_path, program(tmp_path, "good", "echo '2 passed, 0 failed'"))
    done = subprocess.run([ROOT / "tools/run_tests.py", build, "program_godo"], text=True, timeout=120,
                          capture_output=True)
    assert done.returncode == 2, done.stdout
    assert done.stderr == 'run_tests.py: no test program has "program_godo" in its name\n'


def test_a_name_that_no_test_of_a_program_has_is_an_error():
    done = subprocess.run([BUILD / "tests/unit_base_buf", "no such test"], text=True, timeout=100, capture_output=True)
    assert done.returncode == 2, done.stdout
    assert done.stderr == 'no test has "no such test" in its name\n'


def test_what_was_skipped_is_counted_and_its_reason_told(tmp_path):
    runner = runner_module()
    file = tmp_path / "test_some.py"
    file.write_text("import pytest\n\n\ndef test_one():\n    pass\n\n\n"
                    "@pytest.mark.parametrize('n', [1, 2])\ndef test_two(n):\n"
                    "    pytest.skip('the moon is not full')\n")
    code, text, _ = runner.run([*runner.PYTEST, str(file)], dict(os.environ), 60)
    counts = runner.counts_of_pytest(code, text)
    assert (counts.passed, counts.failed, counts.skipped) == (1, 0, 2)
    assert counts.reasons == ["2 skipped: the moon is not full"]


def test_a_program_that_ends_without_a_closing_line_failed(tmp_path):
    lines = [program(tmp_path, "good", "echo '2 passed, 0 failed'"), program(tmp_path, "silent", "exit 0"),
             program(tmp_path, "bad", "echo '1 passed, 1 failed'; exit 1")]
    code, text = run_programs(tmp_path, *lines)
    assert code == 1 and text.endswith("\n3 passed, 2 failed\n"), text


def test_a_check_of_the_sources_passes_fails_or_is_skipped(tmp_path):
    runner = runner_module()
    assert {"check_docs", "check_format", "check_headers", "check_heads", "check_layers", "check_sizes"} <= {
        name for name, _, counts_of in runner.programs_of(build_of(tmp_path)) if counts_of == runner.counts_of_check}
    assert runner.counts_of_check(0, "") == runner.Counts(passed=1)
    assert runner.counts_of_check(1, "base/ may not include this").failed == 1
    assert runner.counts_of_check(None, "").failed == 1
    assert runner.counts_of_check(77, "another version\n") == runner.Counts(
        skipped=1, reasons=["1 skipped: another version"])


def test_tests_read_deep_replies_where_hiredis_is_installed(tmp_path):
    """hiredis refuses replies of more than seven levels; COMMAND DOCS has more."""
    (tmp_path / "hiredis.py").write_text('__version__ = "1.0.1"\n')
    done = subprocess.run(
        ["/usr/bin/python3", "-c", "import conftest, redis.connection as c; print(c.DefaultParser.__name__)"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'tests/wire'}"}, text=True, timeout=100,
        capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "hiredis" not in done.stdout.lower()
