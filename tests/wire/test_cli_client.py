# SPDX-License-Identifier: Apache-2.0
"""terrace COMMAND: what it prints, of one reply and of many, on a terminal and on a pipe, is what redis-cli prints."""
import os
import pty
import re
import select
import signal
import subprocess
import tempfile

import pytest

from conftest import TERRACE, TERRACED, terrace
from diff.servers import Oracle, redis_program
from waiting import LIMIT_SECONDS, wait_until

REDIS_CLI = "redis-cli"
BOTH = TERRACE, REDIS_CLI


class Running:
    """A program whose standard output is a terminal or a pipe."""

    def __init__(self, *args, terminal=False, stdin=""):
        self.out, inner = pty.openpty() if terminal else os.pipe()
        with tempfile.TemporaryFile("w+") as given:
            given.write(stdin)
            given.seek(0)
            self.process = subprocess.Popen(list(map(str, args)), stdin=given, stdout=inner,
                                            stderr=subprocess.PIPE, text=True)
        os.close(inner)
        self.printed = b""

    @property
    def text(self):
        """Without the line ends of a terminal."""
        return self.printed.decode("latin-1").replace("\r\n", "\n")

    def more(self):
        """False: the program has closed its output."""
        ready, _, _ = select.select([self.out], [], [], LIMIT_SECONDS)
        assert ready, self.text
        try:
            part = os.read(self.out, 65536)
        except OSError:  # a terminal nobody holds any more
            part = b""
        self.printed += part
        return part != b""

    def until(self, text):
        """Text that is printed while the program runs on."""
        while text not in self.text:
            assert self.more(), self.text

    def end(self):
        """What it printed, on standard error too, and its exit code."""
        while self.more():
            continue
        errors = self.process.communicate(timeout=LIMIT_SECONDS)[1]
        return self.text, errors, self.process.returncode

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.out)


@pytest.fixture
def run():
    """run(program, *args) starts one; none is left after the test."""
    all_running = []

    def run_one(*args, **options):
        if args[0] == REDIS_CLI:
            args = redis_program(REDIS_CLI), *args[1:]
        all_running.append(Running(*args, **options))
        return all_running[-1]

    yield run_one
    for running in all_running:
        running.stop()


def words_of(server, proto):
    return ["-p", server.port, *(["-3"] if proto == 3 else [])]


LINES = """SET a "b c"
GET a

  MULTI
INCR n
EXPIRE n 100
EXEC
NOSUCH
LRANGE 'it\\'s' 0
HSET h f '"'
HGETALL h
INFO nothing
"""

both_outputs = pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
both_protocols = pytest.mark.parametrize("proto", [2, 3])

# ---- one reply ----

REPLIES = """
PING|ECHO hello|GET text|GET none|STRLEN text|GET odd|MGET text none text|LRANGE list 0 -1|LRANGE none 0 -1
HGETALL hash|HGETALL none|SMEMBERS set|SMEMBERS none|ZSCORE zset a|ZSCORE zset none|ZRANGE zset 0 -1 WITHSCORES
ZRANDMEMBER none 5 WITHSCORES|ZPOPMIN none|LPOP none 1|BLPOP none 0.001|CONFIG GET max*|CONFIG GET nothing
COMMAND INFO get none set|COMMAND DOCS lrange|COMMAND DOCS none|SCAN 0 MATCH text COUNT 1000|TYPE text|OBJECT HELP
INFO keyspace|INFO nothing|CLIENT LIST ID 999|CLUSTER INFO|NOSUCH a|GET|LPUSH text x|SELECT 99999|EXEC
UNSUBSCRIBE none|DBSIZE|INCRBYFLOAT number 0|COMMAND GETKEYS mset a 1 b 2|PUBSUB NUMSUB a b|MEMORY DOCTOR
""".strip().replace("\n", "|").split("|")


def fill(client):
    client.set("text", "one \"two\"")
    client.set("odd", b"\x00\x07\x08\t\r\n\\\xff\x7f")
    client.set("number", "1.5")
    client.rpush("list", *range(12))
    client.hset("hash", mapping={f"f{i}": i for i in range(11)})
    client.sadd("set", 1, 2, 3)
    client.zadd("zset", {"a": 1.5, "b": float("inf"), "c": 3})


@both_outputs
@both_protocols
def test_a_reply_is_printed_as_redis_cli_prints_it(server, run, proto, terminal):
    fill(server.client())
    for line in REPLIES:
        if proto == 3 and line.startswith("UNSUBSCRIBE"):
            continue  # redis-cli waits for another reply, for ever
        args = *words_of(server, proto), *line.split()
        ours, theirs = (run(program, *args, terminal=terminal).end()[:2] for program in BOTH)
        assert ours == theirs, line


@both_outputs
@pytest.mark.parametrize("kind", "string integer double null array set map push verbatim true false".split())
def test_every_kind_of_resp3_is_printed_as_redis_cli_prints_it(oracle, run, kind, terminal):
    args = *words_of(oracle, 3), "DEBUG", "PROTOCOL", kind
    ours, theirs = (run(program, *args, terminal=terminal).end() for program in BOTH)
    assert ours == theirs and ours[2] == 0


def test_a_big_number_is_printed_where_redis_cli_gives_up(oracle, run):
    args = TERRACE, *words_of(oracle, 3), "DEBUG", "PROTOCOL", "bignum"
    digits = "1234567999999999999999999999999999999"
    assert run(*args, terminal=True).end() == (f"(big number) {digits}\n", "", 0)
    assert run(*args).end() == (f"{digits}\n", "", 0)


def test_a_push_is_the_reply_to_unsubscribe(server, run):
    text = run(TERRACE, *words_of(server, 3), "UNSUBSCRIBE", "none", terminal=True).end()[0]
    assert text == '1) "unsubscribe"\n2) "none"\n3) (integer) 0\n'


def test_a_binary_value_is_not_changed_on_a_pipe(server):
    value = bytes(range(256)) * 1000
    server.client().set("k", value)
    done = subprocess.run([TERRACE, "-p", str(server.port), "GET", "k"], capture_output=True, timeout=LIMIT_SECONDS)
    assert done.stdout == value + b"\n"


@pytest.mark.parametrize("line", ["NOSUCH", "GET", "LPUSH text x", "SUBSCRIBE", "MONITOR x", "SHUTDOWN x"])
@both_protocols
def test_an_error_reply_exits_with_1_and_is_printed(server, run, line, proto):
    server.client().set("text", "1")
    text, errors, code = run(TERRACE, *words_of(server, proto), *line.split()).end()
    assert (errors, code) == ("", 1) and text.startswith(("ERR ", "WRONGTYPE ")), text
    text, errors, code = run(TERRACE, *words_of(server, proto), *line.split(), terminal=True).end()
    assert (errors, code) == ("", 1) and "(error) " in text
    assert server.client().ping()


def test_an_output_that_takes_nothing_is_told(server):
    with open("/dev/full", "w") as full:
        done = subprocess.run([TERRACE, "-p", str(server.port), "PING"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 1 and "could not write the reply: No space left" in done.stderr


# ---- replies that keep coming ----

SUBSCRIBED = [("SUBSCRIBE a b", "PUBLISH b", "subscribe"), ("PSUBSCRIBE x a*", "PUBLISH abc", "psubscribe"),
              ("subscribe a b", "PUBLISH b", "subscribe"), ("SSUBSCRIBE a b", "SPUBLISH b", "ssubscribe")]


def messages(server, listening, say, kind, terminal):
    """What is printed until the last of three messages, each of which is awaited."""
    client = server.client()
    try:
        text = f'1) "{kind}"' if terminal else f"{kind}\n"
        while len(re.findall(re.escape(text), listening.text)) < 2 or not listening.text.endswith("2\n"):
            assert listening.more(), listening.text
        for i in range(3):
            assert client.execute_command(*say.split(), f"message {i}") == 1
            listening.until(f'"message {i}"\n' if terminal else f"message {i}\n")
            assert listening.process.poll() is None
        return listening.text
    finally:
        client.close()


@both_outputs
@both_protocols
@pytest.mark.parametrize("line, say, kind", SUBSCRIBED)
def test_messages_are_printed_as_they_come_and_as_redis_cli_prints_them(server, run, line, say, kind, proto,
                                                                        terminal):
    told, client = [], server.client()
    for program in BOTH:
        listening = run(program, *words_of(server, proto), *line.split(), terminal=terminal)
        told.append(messages(server, listening, say, kind, terminal))
        listening.process.kill()
        listening.end()
        wait_until(lambda: client.info("clients")["connected_clients"] == 1)  # the next one listens alone
    assert told[0] == told[1]
    assert ("Reading messages... (press Ctrl-C to quit)\n" in told[0]) == terminal


@both_outputs
@both_protocols
def test_monitor_prints_what_others_do_as_redis_cli_prints_it(server, run, proto, terminal):
    told = []
    client = server.client()
    for program in BOTH:
        watching = run(program, *words_of(server, proto), "MONITOR", terminal=terminal)
        watching.until("OK\n")
        for i in range(3):
            client.set(f"k{i}", "a b")
            watching.until(f'"k{i}" "a b"\n')
            assert watching.process.poll() is None
        watching.process.send_signal(signal.SIGINT)
        text, errors, code = watching.end()
        assert errors == "" and (program != TERRACE or code == -signal.SIGINT)
        told.append(re.sub(r"\d+\.\d{6} \[0 127\.0\.0\.1:\d+\]", "TIME [0 CLIENT]", text))
    assert told[0] == told[1] == "OK\n" + "".join(f'TIME [0 CLIENT] "SET" "k{i}" "a b"\n' for i in range(3))


@pytest.mark.parametrize("line", ["SUBSCRIBE a", "MONITOR"])
def test_ctrl_c_ends_what_listens(server, run, line):
    listening = run(TERRACE, "-p", server.port, *line.split())
    listening.until("1\n" if line != "MONITOR" else "OK\n")
    listening.process.send_signal(signal.SIGINT)
    text, errors, code = listening.end()
    assert (errors, code) == ("", -signal.SIGINT) and text in ("subscribe\na\n1\n", "OK\n")


@pytest.mark.parametrize("line", ["SUBSCRIBE a", "MONITOR"])
def test_the_end_of_the_server_ends_what_listens(server, run, line):
    listening = run(TERRACE, "-p", server.port, *line.split())
    listening.until("1\n" if line != "MONITOR" else "OK\n")
    server.kill()
    assert listening.end()[1:] == ("terrace: the server closed the connection\n", 1)


# ---- options ----

def test_n_and_db_choose_the_database(server):
    port = "-p", server.port
    assert terrace(*port, "-n", 3, "SET", "k", "in 3") == "OK\n"
    assert server.client(db=3).get("k") == b"in 3" and server.client().get("k") is None
    assert terrace(*port, "--db", 3, "GET", "k") == "in 3\n"
    assert terrace(*port, "-n", 3, "-3", "GET", "k") == "in 3\n"
    assert terrace("ping", *port, "-n", 3) == terrace("ping", "-3", *port) == "PONG\n"
    assert "db3:" in terrace("info", "keyspace", *port, "-n", 3)
    assert terrace(*port, "-n", 99999, "PING", code=1) == \
        "terrace: the server refused the database: ERR DB index is out of range\n"
    terrace("bench", *port, "--db", 5, "-n", 10, "-c", 2, "set")
    assert server.client(db=5).dbsize() > 0 and server.client().dbsize() == 0


@pytest.mark.parametrize("line", ["bench -c 1", "fs check", "tile export none imagery", "part run job --exec :"])
def test_every_tool_of_a_server_says_which_database_it_wants(server, line):
    assert "the server refused the database: ERR DB index" in \
        terrace(*line.split(), "-p", server.port, "--db", 99999, code=1)


def test_s_takes_a_unix_socket_and_no_port(start, tmp_path):
    path = tmp_path / "socket"
    server = start("--unixsocket", str(path))
    server.client().set("k", "v")
    nowhere = "-p", 1
    assert terrace(*nowhere, "-s", path, "GET", "k") == "v\n"
    assert terrace("ping", *nowhere, "-s", path) == "PONG\n"
    assert "db0:" in terrace("info", "-s", path, "keyspace")
    assert terrace(*nowhere, "-s", path, "-n", 2, "-3", "DBSIZE") == "0\n"
    assert "requests/s" in terrace("bench", *nowhere, "-s", path, "--db", 4, "-n", 10, "-c", 2, "set")
    assert server.client(db=4).dbsize() > 0
    assert "PROBLEMS" in terrace("fs", *nowhere, "-s", path, "check").upper()
    none = tmp_path / "none"
    assert f'could not connect to "{none}": No such file' in terrace("-s", none, "PING", code=1)
    assert "the path of a socket has at most" in terrace("-s", "x" * 200, "PING", code=1)


def test_a_password_comes_before_the_database_and_resp3(start):
    server = start("--requirepass", "secret")
    port = "-p", server.port
    assert terrace(*port, "-a", "secret", "-n", 2, "-3", "SET", "k", "v") == "OK\n"
    assert server.client(db=2, password="secret").get("k") == b"v"
    assert "the server refused RESP3: NOAUTH" in terrace(*port, "-3", "GET", "k", code=1)
    assert "the server refused the database: NOAUTH" in terrace(*port, "-n", 2, "GET", "k", code=1)


def test_version_is_that_of_the_server():
    said = subprocess.run([TERRACED, "--version"], capture_output=True, text=True, timeout=LIMIT_SECONDS).stdout
    assert re.fullmatch(r"terraced \d+\.\d+\.\d+\n", said)
    assert terrace("--version") == said.replace("terraced", "terrace")


@pytest.mark.parametrize("args, text", [
    (["-z"], 'unknown option "-z"'),
    (["-z", "GET", "k"], 'unknown option "-z"'),
    (["-p", "1", "--nope", "1", "GET", "k"], 'unknown option "--nope"'),
    (["ping", "-z"], 'unknown option "-z"'),
    (["info", "server", "--nope"], 'unknown option "--nope"'),
    (["bench", "-z", "1"], 'unknown option "-z"'),
    (["tile", "export", "none", "imagery", "--levels", "-18446744073709551615"], "levels are N, or N-M"),
    (["tile", "export", "none", "imagery", "--levels", "1-2-3"], "levels are N, or N-M"),
    (["part", "run", "j", "--exec", ":", "--workers", "0"], "--workers takes a number from 1 to 1000"),
    (["part", "run", "j", "--exec", ":", "--stale", "+100"], "--stale takes a number from 30 to"),
    (["-p"], "-p needs a value"),
    (["-3", "-n"], "-n needs a value"),
    (["ping", "-s"], "-s needs a value"),
    (["-3"], "a command is missing"),
    (["-p", "1"], "a command is missing"),
])
def test_a_wrong_option_is_named(args, text):
    assert terrace(*args, code=1).startswith(f"terrace: {text}")


@pytest.mark.parametrize("line", ["PING", "ping", "bench -c 1", "fs check", "tile export none imagery",
                                  "part run job --exec :"])
@pytest.mark.parametrize("port", ["beyond", "0", "-1", "65536", "7379x", " 7379", "http", ""])
def test_a_port_that_is_none_is_refused_and_no_other_is_asked(server, line, port):
    port = str(server.port + 65536) if port == "beyond" else port  # whose low bits are the server's
    words = [*line.split(), "-p", port] if line != "PING" else ["-p", port, "PING"]
    assert f'-p takes a number from 1 to 65535, not "{port}"' in terrace(*words, code=1)


def test_an_argument_that_looks_like_an_option_is_one_only_before_the_command(server):
    assert terrace("-p", server.port, "ECHO", "-n") == "-n\n"
    assert terrace("-p", server.port, "SET", "-p", "--nope") == "OK\n"
    assert server.client().get("-p") == b"--nope"


def test_help_tells_of_the_options():
    text = terrace("help")
    for word in ("[-s SOCKET]", "[--db DB]", "-n DB", " -3 ", "SSUBSCRIBE and MONITOR", "--version"):
        assert word in text, word


# ---- SHUTDOWN ----

@pytest.mark.parametrize("line", ["SHUTDOWN", "shutdown nosave", "SHUTDOWN SAVE"])
@both_protocols
def test_the_end_of_the_server_is_the_success_of_shutdown(server, run, line, proto):
    assert run(TERRACE, *words_of(server, proto), *line.split()).end() == ("", "", 0)
    assert server.process.wait(LIMIT_SECONDS) == 0


def test_the_end_of_the_server_is_the_failure_of_every_other_command(server, run):
    waiting = run(TERRACE, "-p", server.port, "BLPOP", "none", 0)
    client = server.client()
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
    server.kill()
    assert waiting.end() == ("", "terrace: the server closed the connection\n", 1)


# ---- inspect ----

def test_inspect_of_a_key_that_is_not_there_exits_with_1(server):
    server.client().set("k", "v")
    server.stop()
    assert 'extra "v"' in terrace("inspect", server.dir, "--key", "k")
    assert terrace("inspect", server.dir, "--key", "nokey", code=1) == "terrace: no such key\n"


# ---- commands from standard input ----

@both_outputs
@both_protocols
def test_lines_of_standard_input_are_commands_of_one_connection_as_with_redis_cli(server, run, proto, terminal):
    told = []
    for program in BOTH:
        server.client().flushall()
        text, errors, code = run(program, *words_of(server, proto), terminal=terminal, stdin=LINES).end()
        assert errors == "" and (program != TERRACE or code == 1)  # there was an error among the replies
        told.append(text)
    assert told[0] == told[1]


def test_standard_input_without_a_command_is_told(server, run):
    for given in ("", "\n \n"):
        text, errors, code = run(TERRACE, "-p", server.port, stdin=given).end()
        assert (text, code) == ("", 1) and "a command is missing" in errors


@pytest.mark.parametrize("given, says", [("*1\n", "begins with its name"), ("SET a " + 70000 * "x", "at most 65534 bytes"),
                                         ("PING\nSET a 'b\nPING\n", "unbalanced quotes")],
                         ids=["array", "long", "quote"])
def test_a_line_that_is_no_command_is_refused_and_nothing_hangs(server, run, given, says):
    text, errors, code = run(TERRACE, "-p", server.port, stdin=given).end()
    assert code == 1 and says in text + errors
