# SPDX-License-Identifier: Apache-2.0
"""Landing against tables that others have made, databases that hang, many refused rows, and clocks
that go back."""
import contextlib
import queue
import socket
import subprocess
import threading

import pytest

from land import KEY, NEVER, Landed, error_json
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

# ---- tables of others ----

OWN_TYPES = [
    ("mysql", "TINYINT(1)", "BIGINT"), ("mysql", "BOOLEAN", "BIGINT UNSIGNED"),
    ("mysql", "INT UNSIGNED", "BIGINT UNSIGNED"), ("mysql", "CHAR(1)", "BIGINT"),
    ("mysql", "DECIMAL(1,0)", "BIGINT"), ("sqlite", "BOOLEAN", "INTEGER"),
    ("sqlite", "TEXT", "BIGINT"), ("sqlite", "NUMERIC", "INT"), ("sqlite", "", "INTEGER"),
]


@pytest.fixture
def sink_of(request):
    return lambda kind: request.getfixturevalue(f"{'maria' if kind == 'mysql' else kind}_sink")


@pytest.mark.parametrize("kind, is_del, up_version", OWN_TYPES)
def test_columns_of_ours_may_be_of_another_type(columns, sink_of, kind, is_del, up_version):
    """A removed key would come back if its is_del were not understood."""
    sink = sink_of(kind)
    sink.ask(f"CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, name TEXT, is_del {is_del}, "
             f"up_version {up_version})")
    sink.ask("INSERT INTO users VALUES ('8', 'here', 0, 5), ('9', 'gone', 1, 5)")
    landed = columns(sink)
    assert landed("HGETALL", "user:8") == [b"name", b"here"] and landed("HGETALL", "user:9") == []
    landed("HSET", "user:1", "name", "Noy")
    landed("HSET", "user:8", "name", "there")
    landed.flush()
    landed("DEL", "user:1")
    landed.flush()
    assert landed.errors() == {}
    landed.evict("user:8")
    assert landed("HGETALL", "user:1") == [] and landed("HGETALL", "user:8") == [b"name", b"there"]
    verified = landed("LAND.VERIFY", "users")
    assert dict(zip(verified[::2], verified[1::2]))[b"extra_in_sql"] == 0


def test_a_bit_that_says_deleted_is_understood(columns, maria_sink):
    maria_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, name TEXT, is_del BIT(1))")
    maria_sink.ask("INSERT INTO users VALUES ('8', 'here', b'0'), ('9', 'gone', b'1')")
    landed = columns(maria_sink)
    assert landed("HGETALL", "user:8") == [b"name", b"here"] and landed("HGETALL", "user:9") == []


def test_a_table_of_rows_may_have_other_types(landing, maria_sink):
    maria_sink.ask(
        "CREATE TABLE game_eu (primary_key VARCHAR(512) PRIMARY KEY, logic_type VARCHAR(64), "
        "owner_id VARCHAR(64), `key` VARCHAR(64), value BLOB, up_version BIGINT UNSIGNED, is_del "
        "TINYINT(1), del_time BIGINT, create_time BIGINT, update_time BIGINT, query_all_key "
        "VARCHAR(512), KEY (query_all_key))")
    landed = landing(maria_sink)
    landed("HSET", KEY, "a", "1", "b", "2")
    landed.flush()
    landed("HDEL", KEY, "a")
    landed.flush()
    assert landed.errors() == {}
    landed.evict(KEY)
    assert landed("HGETALL", KEY) == [b"b", b"2"]
    landed.put("hero:42:c", b"3", version=(1 << 64) - 1)
    landed.evict(KEY)
    assert "more than a day ahead" in landed.error("HGETALL", KEY)


def test_tables_that_differ_in_case_are_one(landed, sink):
    """They are for SQLite, and for MySQL on some systems: rows of two apps would mix."""
    other = "slug-data:{Game:eu:hero:42}"
    landed("HSET", other, "a", "upper")
    assert "game_eu belongs to the app and region Game&eu" in landed.error("HSET", KEY, "a", "1")
    landed.flush()
    landed.evict(other)
    assert landed("HGET", KEY, "a") is None and landed("HGET", other, "a") == b"upper"


def test_tables_that_differ_in_case_are_one_for_two_servers(landed, landing, sink):
    other = landing(sink, name="other")
    landed("HSET", KEY, "a", "1")
    landed.flush()
    other("HSET", "slug-data:{GAME:EU:hero:42}", "a", "2")
    other.flush_refused()
    error = other.errors()["GAME&EU&hero&42&a"]
    assert b"belongs to another app and region" in error["error"]
    assert landed.live() == {"hero:42:a": b"1"}


def test_the_table_of_tables_is_nobodys(landed, sink):
    landed("HSET", KEY, "a", "1")
    landed("HSET", "slug-data:{terrace:tables:hero:42}", "a", "1")
    landed.flush_refused()
    assert list(landed.errors()) == ["terrace&tables&hero&42&a"]
    assert landed.live() == {"hero:42:a": b"1"}


GENERATED = {"mysql": "concat(a, '-', b)", "sqlite": "a || '-' || b"}


@pytest.mark.parametrize("how", ["STORED", "VIRTUAL"])
def test_a_generated_column_is_nobodys_field(columns, sink, how):
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), both_ "
             f"VARCHAR(50) GENERATED ALWAYS AS ({GENERATED[sink.kind]}) {how})")
    landed = columns(sink)
    landed("HSET", "user:1", "a", "1", "b", "2")
    landed.flush()
    landed("HSET", "user:1", "a", "3")
    landed.flush()
    assert landed.errors() == {}
    assert [text(row) for row in sink.ask("SELECT a, b, both_ FROM users")] == [("3", "2", "3-2")]
    landed.evict("user:1")
    assert landed.client.hgetall("user:1") == {b"a": b"3", b"b": b"2"}
    landed("RENAME", "user:1", "user:2")  # everything of the key lands
    landed.flush()
    assert landed.errors() == {}
    landed("HSET", "user:2", "both_", "x")
    landed.flush_refused()
    assert b'no column "both_"' in landed.errors()["users&2&both_"]["error"]


def text(row):
    return tuple(cell.decode() if isinstance(cell, bytes) else cell for cell in row)


@pytest.mark.parametrize("between", [True, False])
def test_a_key_that_comes_back_has_the_defaults_of_columns_that_are_not_null(columns, sink,
                                                                            between):
    sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, a VARCHAR(20), n INT NOT NULL "
             "DEFAULT 5, nullable VARCHAR(20))")
    landed = columns(sink)
    landed("HSET", "user:1", "a", "1", "n", "7", "nullable", "x")
    landed.flush()
    landed("DEL", "user:1")
    if between:
        landed.flush()
    landed("HSET", "user:1", "a", "2")
    landed("HSET", "user:2", "a", "2")
    landed.flush()
    assert landed.errors() == {}
    assert [text(row) for row in sink.ask("SELECT a, n, nullable, is_del FROM users")] == \
        [("2", 5, None, 0)] * 2


@pytest.mark.parametrize("how", ["HSET", "DEL", "RENAME"])
def test_a_column_that_the_database_keeps_up_to_date_still_is(columns, maria_sink, how):
    maria_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, a TEXT, changed TIMESTAMP NOT "
                   "NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)")
    maria_sink.ask("INSERT INTO users VALUES ('1', 'x', '2001-02-03 04:05:06')")
    landed = columns(maria_sink)
    landed("HSET", "other", "a", "1")
    landed(*{"HSET": ("HSET", "user:1", "a", "1"), "DEL": ("DEL", "user:1"),
             "RENAME": ("RENAME", "other", "user:1")}[how])
    landed.flush()
    assert landed.errors() == {}
    assert maria_sink.ask("SELECT changed > '2020-01-01' FROM users") == [(1,)]


def test_a_client_that_invents_fields_breaks_nobody_elses_keys(columns, sqlite_sink):
    landed = columns(sqlite_sink)
    for some in range(0, 600, 100):
        landed.client.hset("user:1", mapping={f"f{some + n}": "x" for n in range(100)})
        landed.try_flush()
    errors = landed.errors("COUNT", "1000")
    assert len(errors) == 600 - (512 - 4)
    assert all(b"has 512 columns, and gets no more" in item["error"] for item in errors.values())
    landed("HSET", "user:2", "f1", "y")
    landed.flush_refused()
    landed("LAND.EVICT", "user:2")
    assert landed("HGETALL", "user:2") == [b"f1", b"y"] and landed("HGETALL", "user:3") == []


@pytest.mark.parametrize("before", ["", "x", "xx"])
def test_a_reason_is_cut_between_two_characters(landed, before):
    """Or nothing of it could be shown."""
    landed("HSET", KEY, "a", "1")
    landed.flush()
    said = before + "错" * 100
    if landed.sink.kind == "sqlite":
        then = f"SELECT RAISE(ABORT, '{said}')"
    else:
        then = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{said}'"
    landed.sink.ask("CREATE TRIGGER no BEFORE INSERT ON game_eu FOR EACH ROW BEGIN " + then +
                    "; END")
    landed("HSET", KEY, "b", "1")
    landed.flush_refused()
    reason = error_json(landed, "game&eu&hero&42&b")["error"]
    assert "错" * 20 in reason and "�" not in reason


# ---- databases that hang ----

@pytest.fixture
def hole():
    """Takes connections, and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield listening


def hole_url(hole, seconds):
    port = hole.getsockname()[1]
    return f"mysql://root@127.0.0.1:{port}/game?connect-timeout={seconds}"


class Door:
    """Leads to a MariaDB while it is open; a hole when it is shut."""

    def __init__(self, maria):
        self.target = maria.port
        self.is_open = True
        self.links, self.stuck = [], queue.Queue()
        self.listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self, database):
        return f"mysql://root@127.0.0.1:{self.listening.getsockname()[1]}/{database}?connect-timeout=3600"

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                link = self.listening.accept()[0]
                if not self.is_open:
                    self.stuck.put(link)
                    continue
                other = socket.create_connection(("127.0.0.1", self.target))
                self.links += [link, other]
                for pair in ((link, other), (other, link)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    @staticmethod
    def _pump(link, other):
        with contextlib.suppress(OSError):
            while data := link.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def shut(self):
        self.is_open = False
        while self.links:
            with contextlib.suppress(OSError):
                self.links.pop().shutdown(socket.SHUT_RDWR)

    def open(self):
        self.is_open = True


@pytest.fixture
def door(maria):
    door = Door(maria)
    yield door
    door.shut()
    door.listening.close()


def test_deleting_a_rule_waits_for_no_database(start, door, maria_sink):
    """Both its threads are in the middle of connecting, which nothing can cut short."""
    server = start()
    one = Landed(server, None)
    one("LAND.RULE", "ADD", "players", "slug-data:{*}", door.url(maria_sink.name), "delay", "1")
    one("LAND.FLUSH")
    door.shut()
    one("HSET", KEY, "a", "1")
    waits = server.connect()
    waits.sendall(b"HGETALL slug-data:{game:eu:hero:7}\r\n")
    links = [door.stuck.get(timeout=100), door.stuck.get(timeout=100)]
    assert one("LAND.RULE", "DEL", "players", "FORCE") == b"OK"
    assert waits.recv(100) == b"*0\r\n"
    assert one("HGET", KEY, "a") == b"1"
    for link in (waits, *links):
        link.close()  # threads and what they had go now
    assert one("PING") == b"PONG"


def test_deleted_rules_that_hang_have_a_limit(start, door, maria_sink):
    one = Landed(start(), None)
    stuck = []
    for _ in range(64):
        door.open()
        one("LAND.RULE", "ADD", "r", "slug-data:{*}", door.url(maria_sink.name), "delay", "1")
        one("LAND.FLUSH")
        door.shut()
        one("HSET", KEY, "a", "1")
        stuck.append(door.stuck.get(timeout=100))
        one("LAND.RULE", "DEL", "r", "FORCE")
    assert "64 deleted rules still wait" in one.error(
        "LAND.RULE", "ADD", "r", "slug-data:{*}", door.url(maria_sink.name))


def test_nobody_waits_for_a_rule_whose_client_is_gone(start, hole, sqlite_sink):
    """Its database does not answer; the client that adds it goes away, and another rule takes its place."""
    server = start()
    gone = server.connect()
    gone.sendall(f"LAND.RULE ADD r slug-data:{{*}} {hole_url(hole, 3600)}\r\n".encode())
    link = hole.accept()[0]
    one = Landed(server, sqlite_sink)
    assert "another rule is being added" in one.error("LAND.RULE", "ADD", "r", "slug-data:{*}", sqlite_sink.url)
    gone.close()
    wait_until(lambda: one.client.execute_command("INFO", "clients")["connected_clients"] == 2)
    assert one("LAND.RULE", "ADD", "r", "slug-data:{*}", sqlite_sink.url) == b"OK"
    link.close()


def test_who_waits_for_a_database_that_hangs_hears_of_it_once(start, hole):
    """A hundred clients that miss a hundred keys do not wait a hundred times as long."""
    server = start("--land", "players", "slug-data:{*}", hole_url(hole, 1), "delay", NEVER)
    links = [server.connect() for _ in range(100)]
    with server.stopped():
        for i, link in enumerate(links):
            link.sendall(f"HGETALL slug-data:{{game:eu:hero:{i}}}\r\n".encode())
    for link in links:
        assert link.recv(200).startswith(b"-LANDDOWN rule players cannot be asked for this key")
        link.close()
    tries = 0
    hole.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            hole.accept()[0].close()
            tries += 1
    assert tries < 50  # one or two for all of them; the lander has its own, one a second at most


@pytest.mark.parametrize("ask", [("HGETALL", KEY), ("HGET", KEY, "f1")])
def test_what_was_lifted_stays_until_it_was_seen(landing, sink, shift, ask):
    """With a disk that is slower than `keep` a read would ask SQL again and again. It stays for a second at least: only
    where the server itself gets no processor for that long it is asked once more."""
    landed = landing(sink, "keep", "1", prefix=(*shift.prefix, "SLOW_SYNC=20000"),
                     args=("--durability", "always"))
    landed.client.hset(KEY, mapping={f"f{n}": "x" for n in range(10)})
    landed.flush()
    wait_until(lambda: landed("KEYS", "slug-data*") == [])
    for _ in range(5):
        before = landed.status()["lifts"]
        assert landed(*ask)
        assert landed.status()["lifts"] < before + 5


# ---- many refused rows ----

def rest(landed, shift, seconds):
    """By a clock that is set back so far, what was refused is due much later: nobody but LAND.RETRY tries it again."""
    shift.set(-seconds)
    wait_until(lambda: landed.status()["errors"] == 2000)


@pytest.fixture
def refused(landing, sqlite_sink, shift):
    """2,000 refused entries in one table."""
    landed = landing(sqlite_sink, "tables", "1", "batch", "10000", prefix=shift.prefix)
    landed("HSET", KEY, "first", "1")
    landed.flush()
    sqlite_sink.ask("CREATE TRIGGER no BEFORE INSERT ON game_eu WHEN NEW.`key` <> 'good' "
                    "BEGIN SELECT RAISE(ABORT, 'no'); END")
    for owner in range(20):
        landed.client.hset(f"slug-data:{{game:eu:hero:{owner}}}",
                           mapping={f"f{n}": n for n in range(100)})
    landed.flush_refused()
    rest(landed, shift, 1000)
    return landed


def commits(landed):
    return landed.client.info("stats")["commits"]


def attempts(landed):
    return sum(item["attempts"] for item in landed.errors("COUNT", "10000").values())


def test_retry_of_many_takes_many_commits(refused, shift):
    """One commit of all of them would stall everybody else."""
    before, began = attempts(refused), commits(refused)
    assert refused("LAND.RETRY", "players") == 2000
    assert commits(refused) - began >= 2000 // 256
    wait_until(lambda: attempts(refused) >= before + 2000)
    rest(refused, shift, 3000)
    refused.sink.ask("DROP TRIGGER no")
    assert refused("LAND.RETRY", "players") == 2000
    wait_until(lambda: refused.status()["errors"] == 0)
    assert len(refused.live()) == 2001


def test_drop_of_many_takes_many_commits(refused):
    assert refused("LAND.DROP", "players", "game&eu&hero&1&f1", "game&eu&hero&1&f1", "x&y") == 1
    began = commits(refused)
    assert refused("LAND.DROP", "players") == 1999
    assert commits(refused) - began >= 1999 // 256
    assert refused.status()["errors"] == 0 and refused.errors() == {}


def test_a_rule_with_many_refused_rows_is_deleted(start, sqlite_sink):
    landed = Landed(start(), sqlite_sink)
    landed("LAND.RULE", "ADD", "players", "slug-data:{*}", sqlite_sink.url, "tables", "2", "delay",
           NEVER)
    for owner in range(30):
        landed.client.hset(f"slug-data:{{game:eu:hero:{owner}}}",
                           mapping={f"f{n}": n for n in range(100)})
    assert "3000 entries have not landed" in landed.error("LAND.RULE", "DEL", "players")
    assert landed("LAND.RULE", "DEL", "players", "FORCE") == b"OK"
    assert landed.dirty(tables=2) == {} and landed("LAND.RULE", "LIST") == []


# ---- clocks ----

SHIFT = r"""
#include <stdlib.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *to)
{
    static const volatile long *seconds;
    if (!seconds)
        seconds = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("SHIFT"), O_RDONLY), 0);
    long rc = syscall(SYS_clock_gettime, id, to);
    if (rc == 0 && id == CLOCK_REALTIME)
        to->tv_sec += *seconds;
    return (int)rc;
}

int fdatasync(int fd)
{
    const char *microseconds = getenv("SLOW_SYNC");
    usleep(microseconds ? (useconds_t)atoi(microseconds) : 0);
    return (int)syscall(SYS_fdatasync, fd);
}
"""


class Shift:
    """A clock that a test turns, and a disk that is slow, for servers it starts."""

    def __init__(self, directory):
        self.file = directory / "shift"
        self.set(0)
        (directory / "shift.c").write_text(SHIFT)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", directory / "shift.so",
                        directory / "shift.c"], check=True)
        self.prefix = ("env", f"LD_PRELOAD={directory / 'shift.so'}", f"SHIFT={self.file}",
                       "ASAN_OPTIONS=verify_asan_link_order=0")

    def set(self, seconds):
        with open(self.file, "r+b" if self.file.exists() else "wb") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))


@pytest.fixture
def shift(tmp_path_factory):
    return Shift(tmp_path_factory.mktemp("clock"))


@pytest.mark.parametrize("restart", [False, True])
def test_after_the_clock_went_back_newer_values_still_win(landing, sink, shift, restart):
    landed = landing(sink, prefix=shift.prefix)
    landed("HSET", KEY, "a", "1", "gone", "1")
    landed.flush()
    before = landed.version("hero:42:a")
    shift.set(-7200)
    if restart:
        landed.server.kill()
        landed = landing(sink, prefix=shift.prefix)
    landed("HSET", KEY, "a", "2")
    landed("HINCRBY", KEY, "n", "5")
    landed("HDEL", KEY, "gone")
    landed.flush()
    assert landed.live() == {"hero:42:a": b"2", "hero:42:n": b"5"} and landed.errors() == {}
    assert landed.version("hero:42:a") > before
    landed.evict(KEY)
    assert landed.client.hgetall(KEY) == {b"a": b"2", b"n": b"5"}


@pytest.mark.parametrize("restart", [False, True])
def test_after_the_clock_went_back_by_days_our_own_versions_are_not_of_the_future(
        landing, sink, shift, restart):
    shift.set(3 * 86400)
    landed = landing(sink, prefix=shift.prefix)
    landed("HSET", KEY, "a", "1", "b", "1")
    landed.evict(KEY)
    shift.set(0)
    if restart:
        landed.server.kill()
        landed = landing(sink, prefix=shift.prefix)
    assert landed.client.hgetall(KEY) == {b"a": b"1", b"b": b"1"}
    landed("HSET", KEY, "a", "2")
    landed.evict(KEY)
    assert landed.errors() == {} and landed.client.hgetall(KEY) == {b"a": b"2", b"b": b"1"}


def test_after_the_clock_went_back_refused_rows_are_tried_again(columns, sqlite_sink, shift):
    sqlite_sink.ask("CREATE TABLE users (id VARCHAR(64) PRIMARY KEY, age TEXT)")
    sqlite_sink.ask("CREATE TRIGGER no BEFORE INSERT ON users BEGIN SELECT RAISE(ABORT, 'no'); END")
    shift.set(7 * 86400)
    landed = columns(sqlite_sink, prefix=shift.prefix, delay="50")
    landed("HSET", "user:1", "age", "7")
    wait_until(landed.errors)
    sqlite_sink.ask("DROP TRIGGER no")
    shift.set(0)
    wait_until(lambda: landed.errors() == {})
    wait_until(lambda: sqlite_sink.ask("SELECT age FROM users") == [(b"7",)])


def test_after_the_clock_went_back_absence_is_not_remembered_for_longer(landed, landing, sink,
                                                                       shift):
    landed("HSET", KEY, "a", "1")
    landed.flush()
    other = landing(sink, name="other", prefix=shift.prefix)
    other_key = "slug-data:{game:eu:hero:7}"
    assert other("HGETALL", other_key) == []
    landed("HSET", other_key, "a", "1")
    landed.flush()
    shift.set(-3600)
    assert other("HGETALL", other_key) == [b"a", b"1"]


def test_after_the_clock_went_back_a_failure_is_forgotten(start, shift):
    """It is the answer for a moment only: then the database is asked again."""
    landed = Landed(start("--land", "players", "slug-data:{*}", "mysql://root@127.0.0.1:1/game",
                          prefix=shift.prefix), None)
    assert landed.error("HGETALL", KEY).startswith("LANDDOWN")
    shift.set(-3600)
    wait_until(lambda: landed.error("HGETALL", KEY) and landed.status()["lifts"] > 1)
