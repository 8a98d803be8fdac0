# SPDX-License-Identifier: Apache-2.0
"""What COMMAND says of every command is what the server does, and what Redis says of it.

The rows come from the running servers: ours, which has them from src/server/commands.def, and
Debian's redis-server.
"""
import subprocess

import pytest
import redis

from conftest import ROOT, TERRACE

COMPARED_FLAGS = {"readonly", "write", "fast", "admin", "pubsub", "noscript", "movablekeys"}
# Shard channels are no keys here; Redis marks theirs "not_key" and GETKEYS leaves them out.
OTHER_POSITIONS = {"spublish", "ssubscribe", "sunsubscribe"}


def plain_client(port):
    """Replies as they come, without redis-py's conversions."""
    client = redis.Redis(port=port, decode_responses=True, socket_timeout=100)
    client.response_callbacks.clear()
    return client


def answer(client, *words):
    """The reply, or an error's text."""
    try:
        return client.execute_command(*words)
    except redis.ResponseError as error:
        return f"error: {error}"
    except redis.ConnectionError as error:  # redis-py has an own class for AUTH
        return f"error: {error}"


def rows_of(client):
    """name: (arity, flags, first, last, step) of all commands and subcommands."""
    rows = {}

    def take(row):
        rows[row[0]] = (row[1], set(row[2]), *row[3:6])
        for sub in row[9]:
            take(sub)

    for row in client.execute_command("COMMAND"):
        take(row)
    return rows


def docs_of(client):
    docs = {}

    def take(flat):
        for name, fields in zip(flat[::2], flat[1::2]):
            docs[name] = dict(zip(fields[::2], fields[1::2]))
            take(docs[name].get("subcommands", []))

    take(client.execute_command("COMMAND", "DOCS"))
    return docs


def wrong_calls(name, arity):
    """Calls with one argument too few, and one too many where the number is fixed."""
    words = name.split("|")
    if len(words) < abs(arity):
        yield words + ["1"] * (abs(arity) - 1 - len(words))
    if arity > 0:
        yield words + ["1"] * (arity + 1 - len(words))


def test_arity_is_what_command_says(server):
    client = plain_client(server.port)
    rows = rows_of(client)
    assert len(rows) > 200
    for name, (arity, *_) in rows.items():
        for words in wrong_calls(name, arity):
            begin = "Transaction discarded because of: " if name == "exec" else ""
            want = f"error: {begin}wrong number of arguments for '{name}' command"
            assert answer(client, *words) == want, words
            assert answer(client, *map(str.upper, words)) == want, words


def test_arity_errors_are_those_of_redis(server, oracle):
    client, other = plain_client(server.port), plain_client(oracle.port)
    known = rows_of(other)
    for name, (arity, *_) in rows_of(client).items():
        for words in wrong_calls(name, arity) if name in known else ():
            assert answer(client, *words) == answer(other, *words), words


def test_positions_and_flags_are_those_of_redis(server, oracle):
    ours, theirs = rows_of(plain_client(server.port)), rows_of(plain_client(oracle.port))
    different = {}
    for name in ours.keys() & theirs.keys():
        arity, flags, *keys = ours[name]
        their_arity, their_flags, *their_keys = theirs[name]
        if name in OTHER_POSITIONS:
            assert keys != their_keys
            their_keys = keys
        mine = arity, flags & COMPARED_FLAGS, keys
        other = their_arity, their_flags & COMPARED_FLAGS, their_keys
        if mine != other:
            different[name] = mine, other
    assert different == {}


def test_every_command_is_documented(server, oracle):
    client = plain_client(server.port)
    ours, theirs = docs_of(client), docs_of(plain_client(oracle.port))
    assert ours.keys() == rows_of(client).keys()
    for name, fields in ours.items():
        for field in ("summary", "since", "group", "complexity"):
            assert fields[field], (name, field)
        if name in theirs:
            for field in ("since", "group"):
                assert fields[field] == theirs[name][field], (name, field)


GETKEYS = """
GET a
GET a b
GET
SET a 1 EX 10
MGET a b c
MSET a 1 b 2
MSET a 1 b
DEL a b
RENAME a b
COPY a b REPLACE
BITOP AND d a b
BLPOP a b 0
BLMOVE a b LEFT LEFT 0
LMOVE a b LEFT LEFT
LMPOP 1 a LEFT
LMPOP 2 a b LEFT COUNT 3
BLMPOP 0 2 a b LEFT
BZMPOP 0 1 a MIN
BZPOPMIN a b 0
ZMPOP 2 a b MAX
ZUNION 2 a b WITHSCORES
ZUNIONSTORE d 2 a b WEIGHTS 1 2
ZINTERSTORE d 1 a
ZINTERCARD 2 a b LIMIT 1
ZDIFF 1 a
ZDIFFSTORE d 2 a b
ZRANGESTORE d a 0 -1
SINTERCARD 2 a b
SINTERSTORE d a b
SMOVE a b m
SORT a
SORT a BY x GET y
SORT_RO a GET b
OBJECT ENCODING a
OBJECT NOPE a
MEMORY USAGE a
LCS a b
WATCH a b
TOUCH a b
EXISTS a
HSET h f v
ZADD z 1 m
PING a
SELECT 1
CONFIG GET a
PUBLISH a b
SPUBLISH a b
COMMAND COUNT
NOPE a
KEYS x
SCAN 0
""".split("\n")


@pytest.mark.parametrize("line", [line for line in GETKEYS if line])
def test_getkeys_is_that_of_redis(getkeys, line):
    assert getkeys(0, line) == getkeys(1, line)


@pytest.mark.parametrize("line", ["SORT a STORE d", "SORT a STORE d STORE e", "LMPOP x a LEFT",
                                  "LMPOP 5 a LEFT", "LMPOP 0 a LEFT"])
def test_getkeys_reads_arguments_as_redis(getkeys, line):
    assert getkeys(0, line) == getkeys(1, line)


@pytest.fixture(scope="module")
def getkeys(oracle, tmp_path_factory):
    """getkeys(which, line): what our server, or Redis, answers."""
    from conftest import Server
    ours = Server(tmp_path_factory.mktemp("getkeys") / "data")
    clients = plain_client(ours.port), plain_client(oracle.port)
    yield lambda which, line: answer(clients[which], "COMMAND", "GETKEYS", *line.split())
    ours.kill()
    ours.errors.close()


def test_list_and_count_and_info_agree(server):
    client = plain_client(server.port)
    rows = rows_of(client)
    top = [name for name in rows if "|" not in name]
    assert client.execute_command("COMMAND", "LIST") == list(rows)
    assert client.execute_command("COMMAND", "COUNT") == len(top)
    assert [row[0] for row in client.execute_command("COMMAND", "INFO", *rows)] == list(rows)
    assert client.execute_command("COMMAND", "INFO", "nope", "GeT")[0] is None
    found = client.execute_command("COMMAND", "LIST", "FILTERBY", "PATTERN", "z*store")
    assert sorted(found) == ["zdiffstore", "zinterstore", "zrangestore", "zunionstore"]


def test_the_page_of_commands_is_up_to_date(server):
    text = subprocess.run([TERRACE, "help", "--markdown"], capture_output=True, text=True,
                          timeout=100, check=True).stdout
    assert (ROOT / "docs" / "commands.md").read_text() == text, \
        "run: build/terrace help --markdown > docs/commands.md"
    for name in rows_of(plain_client(server.port)):
        assert f"\n| {name.upper().replace('|', ' ')} |" in text
