# SPDX-License-Identifier: Apache-2.0
"""Options of Redis that mean nothing here: taken as Redis takes them, kept, and listed one by one."""
import re
import subprocess

import pytest
import redis

from conftest import TERRACED, start_refused
from diff.servers import Oracle

KEPT, ONLY = "Options of Redis that change nothing", "Options of Redis with one value"
VALUES = ("", "0", "1", "-1", "2", "7", "100", "2147483647", "2147483648", "1.5", "x", "yes", "no", "YES", "64mb", "1 2",
          "clients", "local3", "allchannels", "on-empty-db", "panic", "hostname")
ROUNDED = {"hz", "repl-backlog-size"}  # Redis keeps 500 for a hz of 501
# What is not as in a new Redis, and where.
DIFFERENT = {"maxmemory", "appendonly", "bind", "dir", "port", "enable-debug-command", "latency-tracking", "databases",
             "maxmemory-clients"}


def rows_of(group):
    """Name and alias, value, default and "live" of every row of a table of docs/configuration.md."""
    text = subprocess.run([TERRACED, "--help-markdown"], capture_output=True, text=True, check=True).stdout
    table = text.split(f"## {group}\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {re.findall("`(.*?)`", row[0])[0]: row for row in rows}


@pytest.fixture(scope="module")
def oracle():
    server = Oracle("--hz", "10", "--enable-debug-command", "no")
    yield redis.Redis(port=server.port, decode_responses=True)
    server.stop()


def answer(client, *args):
    try:
        return client.execute_command(*args)
    except redis.ResponseError as error:
        return f"error: {error}"


def test_every_option_of_redis_is_there(server, oracle):
    ours, theirs = server.client().config_get("*"), oracle.config_get("*")
    assert sorted(set(theirs) - set(ours)) == []
    different = {name for name in theirs if ours[name] != theirs[name]}
    assert different - DIFFERENT == set()


def test_kept_options_take_what_redis_takes(server, oracle):
    client = server.client(decode_responses=True)
    for name, row in rows_of(KEPT).items():
        for value in VALUES:
            if value == "" and row[1].startswith("SIZE"):
                continue  # Redis takes it for 0
            theirs = answer(oracle, "CONFIG", "SET", name, value).replace("protected", "immutable")
            assert answer(client, "CONFIG", "SET", name, value) == theirs, (name, value)
            if name not in ROUNDED:
                assert client.config_get(name) == oracle.config_get(name), (name, value)


def test_kept_options_survive_a_rewrite_and_can_stand_in_a_file(start, tmp_path):
    path = tmp_path / "kept.conf"
    path.write_text("io-threads 4\nappendfilename other.aof\n# theirs\nslave-priority 7\n")
    client = start(file=path).client(decode_responses=True)
    client.config_set("list-compress-depth", 2)
    client.config_set("replica-announce-ip", "a b")
    client.config_set("auto-aof-rewrite-min-size", "1mb")
    client.config_rewrite()
    assert path.read_text().splitlines()[:4] == ["io-threads 4", "appendfilename other.aof", "# theirs", "slave-priority 7"]
    after = start(file=path, name="again").client(decode_responses=True).config_get("*")
    for name, value in (("io-threads", "4"), ("appendfilename", "other.aof"), ("replica-priority", "7"),
                        ("slave-priority", "7"), ("list-compress-depth", "2"), ("replica-announce-ip", "a b"),
                        ("auto-aof-rewrite-min-size", "1048576")):
        assert after[name] == value
    said = start_refused(tmp_path / "data3", "--appendfilename", "a/b")
    assert "appendfilename can't be a path, just a filename" in said


@pytest.mark.parametrize("line", ["replicaof 127.0.0.1 6379", "slaveof 127.0.0.1 6379", "cluster-enabled yes", "tls-port 6380",
                                  "tls-cert-file x", "daemonize yes", "min-replicas-to-write 1", "aclfile /x", "supervised systemd",
                                  "oom-score-adj-values 0 200 900", "aof-load-truncated no"])
def test_what_the_server_does_not_do_is_refused_with_a_reason(tmp_path, line):
    path = tmp_path / "redis.conf"
    path.write_text(line + "\n")
    said = start_refused(tmp_path / "data", file=path)
    assert f"{line.split()[0]}: argument must be " in said
    assert len(said.split("argument must be ")[1].split(": ", 1)[1].strip()) > 10


@pytest.mark.parametrize("line", ["loadmodule x.so", "rename-command CONFIG x", "user alice on"])
def test_what_is_no_option_is_unknown(tmp_path, line):
    path = tmp_path / "redis.conf"
    path.write_text(line + "\n")
    assert f'unknown option "{line.split()[0]}"' in start_refused(tmp_path / "data", file=path)


def test_the_defaults_of_redis_can_stand_in_a_file(start, tmp_path, oracle):
    """All that a new Redis says of itself, without what is told here in another way."""
    path = tmp_path / "redis.conf"
    options = {name: value for name, value in oracle.config_get("*").items()
               if name not in DIFFERENT | {"logfile", "unixsocket"}}
    path.write_text("".join(f"{name} " + (value or '""') + "\n" for name, value in options.items()))
    assert len(options) > 150
    given = start(file=path).client(decode_responses=True).config_get("*")
    assert {name: given[name] for name in options} == options


def test_options_with_one_value_take_it(server):
    client = server.client(decode_responses=True)
    for name, row in rows_of(ONLY).items():
        value = client.config_get(name)[name]
        live = answer(client, "CONFIG", "SET", name, value)
        assert live == "OK" or live.endswith("can't set immutable config"), name
        assert answer(client, "CONFIG", "SET", name, value + "x").startswith("error: CONFIG SET failed"), name
        assert client.config_get(name) == {name: value}
        assert len(row[4]) > 10
