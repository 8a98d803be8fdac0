# SPDX-License-Identifier: Apache-2.0
"""CONFIG, the configuration file, the command line, and the documents made from the same table."""
import re
import subprocess

import pytest
import redis

from conftest import ROOT, TERRACED, start_refused

FAILED = "CONFIG SET failed (possibly related to argument '%s') - %s"


def printed(option):
    return subprocess.run([TERRACED, option], capture_output=True, text=True, timeout=100,
                          check=True).stdout


def refused(client, *args):
    with pytest.raises(redis.ResponseError) as caught:
        client.execute_command(*args)
    return str(caught.value)


def config_file(tmp_path, text):
    path = tmp_path / "terrace.conf"
    path.write_text(text)
    return path


@pytest.mark.parametrize("option, path", [("--help-markdown", "docs/configuration.md"),
                                          ("--help-example", "terrace.conf.example")])
def test_documents_are_up_to_date(option, path):
    assert (ROOT / path).read_text() == printed(option), f"run: build/terraced {option} > {path}"


def test_help_names_every_option():
    text = printed("--help")
    own = printed("--help-markdown").split("## Options of Redis")[0]
    names = re.findall(r"^\| `([a-z-]+)`", own, re.M)
    assert len(names) > 30
    for name in names:
        assert f"--{name} " in text


def test_the_example_is_a_file_with_the_defaults(start, tmp_path):
    lines = (ROOT / "terrace.conf.example").read_text().splitlines()
    options = [line[1:] for line in lines if re.match("#[a-z]", line)]
    options = [o for o in options if o.split()[0] not in ("port", "dir")]
    plain = start().client().config_get("*")
    path = config_file(tmp_path, "\n".join(options))
    given = start(file=path, name="other").client().config_get("*")
    for varying in ("port", "dir"):
        plain.pop(varying), given.pop(varying)
    assert given == plain


def test_get_answers_what_suites_ask(server):
    client = server.client()
    assert client.config_get("maxmemory") == {"maxmemory": str(1 << 30)}
    assert client.config_get("save") == {"save": ""}
    assert client.config_get("appendonly") == {"appendonly": "yes"}
    assert client.config_get("databases") == {"databases": "16"}
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert client.config_get("nothing") == {}
    assert client.config_get("TimeOut") == {"TimeOut": "0"}
    assert client.config_get("hash-max-*-value") == {"hash-max-listpack-value": "64",
                                                     "hash-max-ziplist-value": "64"}
    assert client.config_get("timeout", "tim*", "maxclients") == {"timeout": "0",
                                                                  "maxclients": "10000"}
    assert refused(client, "CONFIG", "GET") == "wrong number of arguments for 'config|get' command"


def test_get_is_a_map_in_resp3(server):
    with server.connect() as connection:
        connection.sendall(b"HELLO 3\r\nCONFIG GET timeout\r\n")
        seen = b""
        while not seen.endswith(b"%1\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"):
            part = connection.recv(65536)
            assert part, seen
            seen += part


def test_set_changes_all_or_nothing(server):
    client = server.client()
    assert client.execute_command("CONFIG", "SET", "timeout", 100, "slowlog-max-len", 7)
    assert refused(client, "CONFIG", "SET", "timeout", 200, "slowlog-max-len", "x") == \
        FAILED % ("slowlog-max-len", "argument couldn't be parsed into an integer")
    assert client.config_get("timeout", "slowlog-max-len") == {"timeout": "100",
                                                               "slowlog-max-len": "7"}


@pytest.mark.parametrize("args, text", [
    (["a"], "wrong number of arguments for 'config|set' command"),
    (["a", "b", "c"], "syntax error"),
    (["nope", "1"], "Unknown option or number of arguments for CONFIG SET - 'nope'"),
    (["databases", "3"], FAILED % ("databases", "can't set immutable config")),
    (["dir", "x"], FAILED % ("dir", "can't set immutable config")),
    (["timeout", "1", "timeout", "2"], FAILED % ("timeout", "duplicate parameter")),
    (["appendfsync", "x"], FAILED % (
        "appendfsync", "argument(s) must be one of the following: always, everysec, no")),
    (["save", "3600 1"], FAILED % (
        "save", "argument must be empty: there are no snapshots, the journal and the engine hold "
                "everything")),
    (["appendonly", "no"], FAILED % (
        "appendonly", "argument must be 'yes': every change is in the journal before its reply "
                      "leaves")),
])
def test_set_refuses(server, args, text):
    assert refused(server.client(), "CONFIG", "SET", *args) == text


def test_changes_take_effect(server):
    client = server.client()
    assert client.config_set("requirepass", "secret")
    other = server.client()
    with pytest.raises(redis.AuthenticationError):
        other.get("k")
    assert server.client(password="secret").ping()
    assert client.config_set("requirepass", "")
    assert server.client().ping()
    assert client.config_set("proto-max-bulk-len", "1mb")
    with pytest.raises(redis.RedisError):
        server.client().set("k", b"x" * (1 << 21))
    assert client.config_set("appendfsync", "always")
    assert client.config_get("durability", "appendfsync") == {"durability": "always",
                                                              "appendfsync": "always"}
    assert client.info("persistence")["durability"] == "always"


def test_maxclients_is_obeyed_at_once(server):
    client = server.client()
    client.ping()
    assert client.config_set("maxclients", 1)
    with pytest.raises(redis.ConnectionError):
        server.client().ping()
    assert client.config_set("maxclients", 100)
    assert server.client().ping()


def test_more_clients_than_the_system_has_descriptors_for_are_refused_and_told(start):
    server = start(prefix=("prlimit", "--nofile=256:256"))
    client = server.client()
    limit = int(client.config_get("maxclients")["maxclients"])
    assert limit < 256 and limit == client.info("clients")["maxclients"]
    assert f"maxclients is {limit}, not 10000" in server.stderr()
    with pytest.raises(redis.ResponseError, match="The operating system is not able to handle the specified number of "
                                                  f"clients, try with {limit}"):
        client.config_set("maxclients", 5000)
    assert client.config_get("maxclients")["maxclients"] == str(limit)
    assert client.config_set("maxclients", limit)


def test_rewrite_keeps_the_file(start, tmp_path):
    path = config_file(tmp_path, "# mine\ntimeout 100\n\nmaxclients 50\n")
    server = start("--loglevel", "warning", file=path)
    client = server.client()
    port, directory = client.config_get("port")["port"], client.config_get("dir")["dir"]
    assert client.config_set("timeout", 300)
    assert client.config_rewrite()
    text = path.read_text()
    assert text.startswith("# mine\ntimeout 300\n\nmaxclients 50\n")
    head, tail = text.split("\n# Generated by CONFIG REWRITE\n")
    assert sorted(tail.splitlines()) == sorted(
        [f"port {port}", f"dir {directory}", "full-reserve 0", "loglevel warning"])
    assert server.stop() == 0
    again = start(file=path).client()
    assert again.config_get("timeout", "maxclients", "loglevel") == {
        "timeout": "300", "maxclients": "50", "loglevel": "warning"}


def test_rewrite_needs_a_file(server):
    assert refused(server.client(), "CONFIG", "REWRITE") == \
        "The server is running without a config file"


def test_standard_input_is_read(tmp_path):
    done = subprocess.run([TERRACED, "--timeout", "1", "-"], input="port x\n", text=True,
                          capture_output=True, timeout=100)
    assert done.returncode == 1
    assert "standard input:1: port: argument couldn't be parsed into an integer" in done.stderr


@pytest.mark.parametrize("text, said", [
    ("timeout 1\nnothing 2\n", ":2: unknown option \"nothing\""),
    ("timeout\n", ":1: timeout: wrong number of arguments"),
    ("timeout x\n", ":1: timeout: argument couldn't be parsed into an integer"),
    ("dir \"x\n", ":1: Unbalanced quotes in configuration line"),
    ("include nowhere.conf\n", "nowhere.conf"),
])
def test_bad_files_are_refused_with_their_place(tmp_path, text, said):
    path = config_file(tmp_path, text)
    done = subprocess.run([TERRACED, path], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert done.stderr.startswith(f"terraced: {path}:") and said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_bad_arguments_are_refused(tmp_path):
    assert "timeout: wrong number of arguments" in start_refused(tmp_path, "--timeout")
    assert 'unknown option "nothing"' in start_refused(tmp_path, "--nothing", "1")
    assert "could not open" in start_refused(tmp_path, file=tmp_path / "missing.conf")


def test_resetstat_and_help(server):
    client = server.client()
    for _ in range(10):
        client.ping()
    assert client.info("stats")["total_commands_processed"] >= 10
    assert client.config_resetstat()
    assert client.info("stats")["total_commands_processed"] < 10
    lines = client.execute_command("CONFIG", "HELP")
    assert lines[0].startswith(b"CONFIG <subcommand>")
    assert b"REWRITE" in lines and lines[-2] == b"HELP"
    assert refused(client, "CONFIG", "FOO") == "unknown subcommand 'FOO'. Try CONFIG HELP."
    assert refused(client, "CONFIG") == "wrong number of arguments for 'config' command"
