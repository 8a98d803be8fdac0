# SPDX-License-Identifier: Apache-2.0
"""/metrics over HTTP."""
import http.client
import re
import socket
import threading

import pytest

from conftest import start_refused
from diff.places import free_port
from land import Sqlite, away
from talk import Link
from waiting import wait_until

SERVER_OPTIONS = ("--land-dir", "/", "--land-remote", "yes")  # rules of clients: test_landing_limits.py

LABEL = r'[a-z]+="[^"\\\n]*"'
HISTOGRAM_PART = re.compile(r"_(bucket|sum|count)$")
SAMPLE = re.compile(rf'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{{{LABEL}(?:,{LABEL})*\}})? (\d+)$')


@pytest.fixture
def web(start):
    port = free_port()
    server = start("--http-port", str(port))
    server.http_port = port
    return server


def fetch(server, method="GET", path="/metrics", body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=100)
    connection.request(method, path, body)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply, text


def metrics_of(text):
    """name and labels: value; fails if it is not what Prometheus reads."""
    assert text.endswith("\n")
    values, types, helped = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge", "histogram") and name not in types
            types[name] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            name, labels, value = found.groups()
            family = name if name in types else HISTOGRAM_PART.sub("", name)
            assert family in types and family in helped, line
            assert (family != name) == (types[family] == "histogram"), line
            assert name.endswith("_total") == (types[family] == "counter"), name
            assert name + (labels or "") not in values
            values[name + (labels or "")] = int(value)
    return values


def test_metrics_are_prometheus_text(web):
    reply, text = fetch(web)
    assert reply.status == 200
    assert reply.getheader("Content-Type") == "text/plain; version=0.0.4"
    assert int(reply.getheader("Content-Length")) == len(text)
    values = metrics_of(text)
    assert values["terrace_up"] == 1 and len(values) > 40


def test_counters_move_with_what_they_count(web):
    link = Link(web)
    before = metrics_of(fetch(web)[1])
    link.say("SET a 1", "SET b 2", "GET a", "GET none", "NOSUCH", "PUBLISH c m", "SELECT 3", "SET c 3")
    after = metrics_of(fetch(web)[1])

    def grown(name):
        return after[name] - before.get(name, 0)

    assert grown("terrace_commands_total") == 8
    assert grown("terrace_errors_total") == 1
    assert grown("terrace_keyspace_hits_total") == 1
    assert grown("terrace_keyspace_misses_total") == 1
    assert grown("terrace_pubsub_messages_total") == 1
    assert grown('terrace_command_calls_total{command="set"}') == 3
    assert grown("terrace_input_bytes_total") > 0 and grown("terrace_output_bytes_total") > 0
    assert grown("terrace_journal_bytes_total") > 0 and grown("terrace_commits_total") >= 3
    assert (after['terrace_keys{db="0"}'], after['terrace_keys{db="3"}']) == (2, 1)
    assert all(after[name] >= before[name] for name in before if name.split("{")[0].endswith("_total"))


def test_connections_are_counted(web):
    links = [Link(web) for _ in range(5)]
    for link in links:
        link.say("PING")
    values = metrics_of(fetch(web)[1])
    assert values["terrace_clients_connected"] == 5 and values["terrace_connections_total"] == 5


def test_values_are_those_of_info(web):
    link = Link(web)
    link.say("SET a 1", "DEBUG RELOAD", "GET a")
    values = metrics_of(fetch(web)[1])
    info = dict(line.split(":", 1) for line in link.text("INFO", "everything").splitlines()
                if ":" in line)
    for name, field in (("terrace_clients_max", "maxclients"), ("terrace_loads_total", "loads"),
                        ("terrace_hot_bytes_max", "hot_bytes_max"),
                        ("terrace_flush_units_total", "flush_units"),
                        ("terrace_cold_reads_total", "cold_reads")):
        assert values[name] == int(info[field]), name


def wait_for_metrics(web, condition):
    """The counts of dirty tables are read once a second."""
    def holds():
        values = metrics_of(fetch(web)[1])
        return values if condition(values) else None

    return wait_until(holds)


def test_landing_is_shown_by_rule_and_table(web, tmp_path):
    link = Link(web)
    assert not [name for name in metrics_of(fetch(web)[1]) if "landing" in name]
    link.say(f"LAND.RULE ADD one user:* sqlite:{tmp_path}/one.db shape columns table t key id "
             "delay 3600000 tables 2",
             f"LAND.RULE ADD two item:* sqlite:{tmp_path}/two.db shape columns table t key id "
             "delay 3600000 tables 2 db 3",
             "LAND.FLUSH")  # their first passes are over
    link.say("HSET user:1 name ann", "HSET user:2 name bob", "HSET user:2 name cyd")

    def dirty(values, db):
        return sum(values.get(f'terrace_landing_dirty_entries{{db="{db}",table="{n}"}}', 0)
                   for n in range(2))

    values = wait_for_metrics(web, lambda values: dirty(values, 0) == 2 and
                              values['terrace_landing_oldest_dirty_milliseconds{rule="one"}'] > 0)
    assert dirty(values, 3) == 0
    assert values['terrace_landing_oldest_dirty_milliseconds{rule="two"}'] == 0
    assert values['terrace_landing_rows_total{rule="one"}'] == 0
    link.say("LAND.FLUSH", "HGETALL user:1", "HGETALL user:1", "HGETALL user:9")
    values = wait_for_metrics(web, lambda values: dirty(values, 0) == 0)
    for name, value in (("rows", 2), ("refused_rows", 0), ("failures", 0), ("lifts", 2),
                        ("lift_failures", 0), ("misses", 2)):
        assert values[f'terrace_landing_{name}_total{{rule="one"}}'] == value, name
    for name in ("batches", "sql_microseconds", "lift_microseconds", "hits"):
        assert values[f'terrace_landing_{name}_total{{rule="one"}}'] > 0, name
    assert values['terrace_landing_failing{rule="one"}'] == 0
    assert values['terrace_landing_oldest_dirty_milliseconds{rule="one"}'] == 0
    assert values['terrace_landing_rows_total{rule="two"}'] == 0
    assert values['terrace_landing_error_entries{db="0",table="0"}'] == 0
    info = dict(line.split(":", 1) for line in link.text("INFO", "landing").splitlines()
                if ":" in line)
    assert (info["landing_rules"], info["landing_landed_rows"], info["landing_lifts"],
            info["landing_backlog"]) == ("2", "2", "2", "0")


def test_a_database_that_is_away_is_shown(web, tmp_path):
    link = Link(web)
    link.say(f"LAND.RULE ADD one user:* sqlite:{tmp_path}/dir.db shape columns table t key id", "LAND.FLUSH")
    with away(Sqlite(tmp_path / "dir.db")):
        link.say("HSET user:1 name ann", "LAND.FLUSH")
        values = wait_for_metrics(web, lambda values: sum(
            values[name] for name in values if name.startswith("terrace_landing_dirty_entries{")
            or name.startswith("terrace_landing_saving_entries{")) == 1)
        assert values['terrace_landing_failing{rule="one"}'] == 1
        assert values['terrace_landing_missing{rule="one"}'] == 0
        assert values['terrace_landing_failures_total{rule="one"}'] >= 1
        assert "landing_rules_failing:1" in link.text("INFO", "landing")
    link.say("LAND.RULE DEL one FORCE")
    assert not [name for name in metrics_of(fetch(web)[1]) if "landing_" in name]


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metric", "/metricsx", "/%2e%2e/etc/passwd", "/x?y"])
def test_other_paths_are_404(web, path):
    assert fetch(web, path=path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_405_and_told_what_is_allowed(web, method):
    reply, _ = fetch(web, method, body="x" * 100000 if method == "POST" else None)
    assert reply.status == 405
    assert reply.getheader("Allow") == "GET, HEAD"
    assert fetch(web)[0].status == 200


def test_head_gives_the_headers_of_get(web):
    reply, text = fetch(web, "HEAD")
    assert (reply.status, text) == (200, "")
    assert int(reply.getheader("Content-Length")) > 1000


def test_a_question_mark_does_not_hide_metrics(web):
    assert fetch(web, path="/metrics?x=y")[0].status == 200


def test_a_connection_serves_many_requests(web):
    connection = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
    connection.connect()
    used = connection.sock
    for _ in range(50):
        connection.request("GET", "/metrics")
        metrics_of(connection.getresponse().read().decode())
    assert connection.sock is used


def test_many_at_once_are_all_answered_while_commands_run(web):
    failures = []

    def scrape():
        for _ in range(20):
            reply, text = fetch(web)
            if reply.status != 200 or metrics_of(text)["terrace_up"] != 1:
                failures.append(reply.status)

    threads = [threading.Thread(target=scrape) for _ in range(16)]
    for thread in threads:
        thread.start()
    link = Link(web)
    for _ in range(20):
        assert link.say(*100 * ["INCR n"])[-1][0] == ":"
    for thread in threads:
        thread.join()
    assert failures == []
    assert link.say("GET n") == ["2000"]


def test_what_is_not_http_does_no_harm(web):
    for text in (b"\r\n\r\n", b"GET\r\n\r\n", b"\0" * 1000, b"PING\r\n", b"GET /metrics HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", web.http_port), timeout=100) as raw:
            raw.sendall(text)
    assert fetch(web)[0].status == 200 and Link(web).say("PING") == ["+PONG"]


def ended(sock):
    """Waits until the server has closed it."""
    sock.settimeout(100)
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def test_half_requests_give_way_to_whole_ones(web):
    socks = []
    for _ in range(1100):
        socks.append(socket.create_connection(("127.0.0.1", web.http_port), timeout=100))
        socks[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
    for _ in range(20):
        assert fetch(web)[0].status == 200
    assert all(ended(sock) for sock in socks[:100])  # those that have waited for the longest
    for sock in socks:
        sock.close()


def test_connections_that_ask_nothing_give_way_to_those_that_ask(web):
    socks = [socket.create_connection(("127.0.0.1", web.http_port), timeout=100) for _ in range(1100)]
    kept = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
    for _ in range(3):
        kept.request("GET", "/metrics")
        assert kept.getresponse().read()
    assert fetch(web)[0].status == 200
    for sock in socks:
        sock.close()


def test_a_request_that_comes_byte_by_byte_does_not_keep_its_connection(web):
    with socket.create_connection(("127.0.0.1", web.http_port), timeout=100) as sock:
        sock.settimeout(0.5)
        sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for _ in range(200):  # 100 s at most; a connection of ours waits for 10
            try:
                sock.sendall(b"x")
                if sock.recv(100) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        raise AssertionError("it is still open")


def test_a_port_that_is_in_use_stops_the_start_with_its_reason(web, tmp_path):
    said = start_refused(tmp_path / "other", "--http-port", str(web.http_port))
    assert f"could not listen for HTTP on 127.0.0.1:{web.http_port}: Address already in use" in said
    said = start_refused(tmp_path / "other", "--http-port", "1", "--http-bind", "no such host")
    assert "http-bind" in said


def test_a_server_with_http_stops_in_order(web):
    connection = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
    connection.request("GET", "/metrics")
    connection.getresponse().read()  # and stays connected
    assert web.stop() == 0
