# SPDX-License-Identifier: Apache-2.0
"""terrace part run: workers as processes, and what becomes of the work of one that is killed."""
import os
import re
import signal
import subprocess
import urllib.request

import pytest

from conftest import ROOT, TERRACE, terrace
from diff.places import free_port
from part import Job
from test_part_archive import SMALL, assert_whole, wait


def run(server, job, command, *args, **options):
    return subprocess.Popen([TERRACE, "part", "run", job, "-p", str(server.port), "--exec", command,
                             *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **options)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def test_all_partitions_are_processed_once(server, tmp_path):
    job = Job(server)
    job.call("ALLOC", 1000, "SIZE", 10)
    log = tmp_path / "log"
    process = run(server, "j", f"echo {{id}} {{min}} {{max}} >> {log}", "--workers", 3)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out == "100 completed, 0 failed, 0 left\n"
    lines = sorted(tuple(map(int, line.split())) for line in log.read_text().splitlines())
    assert lines == [(i + 1, i * 10 + 1, i * 10 + 10) for i in range(100)]
    assert job.call("GAPS") == [] and len(job.rows("WORKERS")) <= 3
    assert all(record["duration_ms"] is not None for record in job.list("ARCHIVED"))


def test_a_killed_worker_loses_its_partition_to_another(server, tmp_path):
    job = Job(server)
    job.call("ALLOC", 40, "SIZE", 1)
    hang = tmp_path / "hang"
    hang.touch()
    # Whoever gets partition 7 first hangs; the others go on.
    command = f"[ {{id}} != 7 ] || while [ -e {hang} ]; do sleep 0.05; done"
    process = run(server, "j", command, "--workers", 3, "--stale", 3000)
    wait(lambda: job.stats()["completed"] == 39)
    worker = job.get(7)["worker_id"]
    os.kill(int(worker.split("-")[-2]), signal.SIGKILL)
    hang.unlink()
    out, err = process.communicate(timeout=100)
    assert out == "40 completed, 0 failed, 0 left\n" and process.returncode == 0
    assert job.get(7)["worker_id"] != worker and job.call("GAPS") == []
    assert_whole(job)


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("who", ("worker", "parent", "both"))
def test_nothing_of_a_killed_worker_goes_on(server, tmp_path, who):
    job = Job(server)
    job.call("ALLOC", 1, "SIZE", 1)
    note = tmp_path / "note"
    process = run(server, "j", f"sleep 1000 & echo $$ $! > {note}.new; mv {note}.new {note}; wait")
    wait(note.exists)
    shell, command = map(int, note.read_text().split())
    worker, = children(process.pid)
    if who != "parent":
        os.kill(worker, signal.SIGKILL)
    if who != "worker":
        process.kill()
    wait(lambda: gone(worker) and gone(shell))
    if who == "both":  # nobody is left who knew of what the shell had started
        os.kill(command, signal.SIGKILL)
    wait(lambda: gone(command))
    process.kill()  # a parent without workers that waits for a partition to become stale
    process.communicate(timeout=100)
    assert job.get(1)["status"] == ("pending" if who == "parent" else "running")


def test_a_command_counts_by_how_it_ended_whatever_was_inherited(server):
    """Where SIGCHLD is ignored a child is reaped by nobody, and its end seemed to be a good one."""
    job = Job(server)
    job.call("ALLOC", 1, "SIZE", 1)
    process = run(server, "j", "exit 3",
                  preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    out, _ = process.communicate(timeout=100)
    assert out == "0 completed, 1 failed, 0 left\n" and process.returncode == 1


def test_failed_ones_are_kept_or_retried(server, tmp_path):
    job = Job(server)
    job.call("ALLOC", 10, "SIZE", 1)
    process = run(server, "j", "[ {id} -ne 4 ] && [ {id} -ne 5 ] || exit {id}")
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 1 and out == "8 completed, 2 failed, 0 left\n"
    assert job.get(4)["error"] == "the command ended with status 4"
    job.call("RETRY")
    mark = tmp_path / "mark"
    process = run(server, "j", f"[ -e {mark}{{id}} ] || {{ touch {mark}{{id}}; kill -9 $$; }}",
                  "--retries", 3)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0 and out == "10 completed, 0 failed, 0 left\n"
    assert job.get(5)["attempts"] == 2


def test_a_stopped_worker_gives_its_partition_back(server):
    job = Job(server)
    job.call("ALLOC", 1, "SIZE", 1)
    process = run(server, "j", "sleep 100", "--stale", 600)
    wait(lambda: job.states() == [0, 0, 1, 0, 0])
    beat = job.get(1)["last_heartbeat"]
    wait(lambda: job.get(1)["last_heartbeat"] != beat)  # it beats while the command runs
    os.kill(children(process.pid)[0], signal.SIGTERM)
    out, _ = process.communicate(timeout=100)
    assert out == "0 completed, 0 failed, 1 left\n" and process.returncode == 1
    assert job.get(1)["status"] == "pending"


@pytest.mark.parametrize("args", [
    (), ("stop",), ("run",), ("run", "j"), ("run", "j", "--exec"), ("run", "--exec", "x"),
    ("run", "j", "--exec", "x", "--nope", "1")])
def test_command_lines_that_are_none(args):
    assert "part" in terrace("part", *args, code=1)


def test_an_unknown_job_and_a_server_that_is_away(start):
    server = start(port=free_port())
    error = terrace("part", "run", "nope", "-p", server.port, "--exec", "true", code=1)
    assert "NOJOB there is no job nope" in error
    port = server.port
    server.kill()
    assert "could not connect" in terrace("part", "run", "j", "-p", port, "--exec", "x", code=1)


def test_alert_rules_name_metrics_that_there_are(start):
    port = free_port()
    server = start(*SMALL, "--http-port", str(port))
    job = Job(server)
    job.call("ALLOC", 30, "SIZE", 1)
    job.finish("w", 20)
    job.client.execute_command("PART.ARCHIVE", "j", "VERIFY")

    def text():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode()

    wait(lambda: 'terrace_part_completed{db="0",job="j"} 20' in text())
    rules = (ROOT / "docs" / "terrace-partitions.yml").read_text()
    names = set(re.findall(r"terrace_part_\w+", rules))
    assert len(names) >= 9
    for name in names:
        assert re.search(rf"^{name}[ {{]", text(), re.MULTILINE), name


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_the_workers_go_on_when_the_server_comes_back(start, tmp_path, ending):
    server = start(port=free_port())
    job = Job(server)
    job.call("ALLOC", 300, "SIZE", 1)
    log = tmp_path / "log"
    process = run(server, "j", f"echo {{id}} >> {log}", "--workers", 3, "--stale", 500)
    for _ in range(2):
        before = len(log.read_text().split()) if log.exists() else 0
        wait(lambda: log.exists() and len(log.read_text().split()) > before + 20)
        getattr(server, ending)()
        server = start(port=server.port)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "300 completed, 0 failed, 0 left\n"), err
    assert "; trying again\n" in err and "terrace: the server is back\n" in err
    assert set(map(int, log.read_text().split())) == set(range(1, 301))
    assert Job(server).call("GAPS") == []


def test_a_command_that_outlives_a_restart_is_completed(start, tmp_path):
    server = start(port=free_port())
    Job(server).call("ALLOC", 1, "SIZE", 1)
    begun, go = tmp_path / "begun", tmp_path / "go"
    process = run(server, "j", f"echo x >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done", "--stale", 60000)
    wait(begun.exists)
    server.kill()
    server = start(port=server.port)
    go.touch()
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "1 completed, 0 failed, 0 left\n"), err
    assert begun.read_text() == "x\n"


def test_a_server_that_stays_away_ends_the_run(start, tmp_path):
    server = start(port=free_port())
    Job(server).call("ALLOC", 5, "SIZE", 1)
    begun = tmp_path / "begun"
    process = run(server, "j", f"touch {begun}; sleep 600", "--workers", 2, "--away", 300, "--stale", 100)
    wait(begun.exists)
    server.kill()
    out, err = process.communicate(timeout=100)
    assert process.returncode == 1 and "the server has been away for 300 ms" in err


def test_a_server_that_is_not_there_at_the_start_is_not_waited_for(start):
    server = start(port=free_port())
    server.kill()
    process = run(server, "j", ":")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 1 and "could not connect" in err and "again" not in err
