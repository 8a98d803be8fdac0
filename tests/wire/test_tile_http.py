# SPDX-License-Identifier: Apache-2.0
"""Tiles over HTTP: what curl and browsers see."""
import gzip
import http.client
import json
import socket
import subprocess
import threading
import zlib

import pytest

from conftest import TERRACED
from diff.places import free_port
from tilekit import IMAGERY, TYPES
from waiting import wait_until

SANITIZED = "san/" in TERRACED  # needs three times the memory
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


@pytest.fixture
def web(start):
    port = free_port()
    server = start("--http-port", str(port), "--http-max-age", "90",
                   "--tile-types", *TYPES)
    server.http_port = port
    server.r = server.client()
    return server


def fetch(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=100)
    connection.request(method, path, headers={name.replace("_", "-"): value
                                              for name, value in headers.items()})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply, body


def put(server, kind, key, data, *words):
    server.r.execute_command("TILE.SET", kind, key, data, *words)


def test_a_tile_is_found_by_place_and_by_tilekey(web):
    put(web, "imagery", "30", PNG)  # level 2, second row from the north, first column
    for path in ("/tiles/imagery/2/0/1", "/tiles/imagery/2/0/1.png", "/tiles/imagery/30",
                 "/tiles/imagery/30.png", "/tiles/imagery/2/0/1.png?x=y"):
        reply, body = fetch(web, path)
        assert (reply.status, body) == (200, PNG), path
        assert reply.getheader("Content-Type") == "image/png"
        assert reply.getheader("Cache-Control") == "public, max-age=90"
        assert int(reply.getheader("Content-Length")) == len(PNG)
    put(web, "imagery", "", b"the world")
    assert fetch(web, "/tiles/imagery/0/0/0")[1] == b"the world"


def test_rows_come_from_the_north_and_keys_from_the_south(web):
    for key in "0123":
        put(web, "imagery", key, key)
    places = {"0": (0, 1), "1": (1, 1), "2": (1, 0), "3": (0, 0)}  # bottom-left, and around
    for key, (x, y) in places.items():
        assert fetch(web, f"/tiles/imagery/1/{x}/{y}")[1].decode() == key


def test_curl_asks_again_only_for_what_has_changed(web, tmp_path):
    put(web, "imagery", "0", PNG)
    url = f"http://127.0.0.1:{web.http_port}/tiles/imagery/0"
    etags, out = tmp_path / "etag", tmp_path / "out"

    def curl(*words):
        done = subprocess.run(["curl", "-sS", "-o", out, "-w", "%{http_code} %{size_download}",
                               "--etag-save", etags, "--etag-compare", etags, *words, url],
                              capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert curl() == f"200 {len(PNG)}"
    assert curl() == "304 0"
    put(web, "imagery", "0", PNG + b"new")
    assert curl() == f"200 {len(PNG) + 3}"
    put(web, "imagery", "0", PNG)
    assert curl("-I") == "200 0"  # HEAD


def test_conditional_requests(web):
    put(web, "imagery", "0", PNG)
    etag = fetch(web, "/tiles/imagery/0")[0].getheader("ETag")
    assert etag.startswith('"') and etag.endswith('"')
    for wanted in (etag, "*", f"W/{etag}", f'"x", {etag}', f'"x",{etag} , "y"'):
        reply, body = fetch(web, "/tiles/imagery/0", If_None_Match=wanted)
        assert (reply.status, body) == (304, b""), wanted
        assert reply.getheader("ETag") == etag and reply.getheader("Cache-Control")
    for wanted in ('"x"', "", etag.strip('"'), etag[:-2] + '"', ",,,", '"' * 1000):
        assert fetch(web, "/tiles/imagery/0", If_None_Match=wanted)[0].status == 200, wanted
    assert fetch(web, "/tiles/imagery/1", If_None_Match="*")[0].status == 404
    # The ETag is of the data alone: the same after it was away.
    web.r.execute_command("TILE.DEL", "imagery", "0")
    put(web, "imagery", "0", PNG, "EPOCH", 7)
    assert fetch(web, "/tiles/imagery/0")[0].getheader("ETag") == etag


def test_head_has_the_headers_of_get(web):
    put(web, "imagery", "0", PNG)
    get, _ = fetch(web, "/tiles/imagery/0")
    head, body = fetch(web, "/tiles/imagery/0", "HEAD")
    assert (head.status, body) == (200, b"")
    for name in ("Content-Type", "Content-Length", "ETag", "Cache-Control"):
        assert head.getheader(name) == get.getheader(name)
    assert fetch(web, "/tiles/imagery/1", "HEAD")[0].status == 404


def test_the_type_is_that_of_the_data_whatever_the_url_says(web):
    for data, kind in ((PNG, "image/png"), (b"\xff\xd8\xff\xe0x", "image/jpeg"),
                       (b"RIFF1234WEBPx", "image/webp"), (b"GIF89a", "image/gif"),
                       (b"\0\0\0\x1cftypavif", "image/avif"), (b'{"a": 1}', "application/json"),
                       (b"\x1a\x05layer", "application/vnd.mapbox-vector-tile"),
                       (b"RIFF", "application/octet-stream"), (b"x", "application/octet-stream")):
        put(web, "imagery", "0", data)
        assert fetch(web, "/tiles/imagery/0.html")[0].getheader("Content-Type") == kind, data


def test_gzip_is_passed_on_and_unpacked_for_who_does_not_take_it(web):
    plain = b"\x1a\x05layer" * 500
    packed = gzip.compress(plain)
    put(web, "vector", "0", packed)
    tags = set()
    for accept, want in ((None, packed), ("gzip", packed), ("br, gzip;q=0.5", packed), ("*", packed),
                         ("*;q=0, gzip", packed), ("*, gzip;q=0", plain), ("*;q=0", plain), ("identity", plain), ("gzip;q=0", plain), ("br", plain), ("gzip;q=0.000", plain)):
        headers = {"Accept_Encoding": accept} if accept else {}
        connection = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
        connection.putrequest("GET", "/tiles/vector/0.pbf", skip_accept_encoding=True)
        if accept:
            connection.putheader("Accept-Encoding", accept)
        connection.endheaders()
        reply = connection.getresponse()
        assert reply.read() == want, headers
        assert reply.getheader("Content-Encoding") == ("gzip" if want is packed else None)
        assert reply.getheader("Vary") == "Accept-Encoding"
        assert reply.getheader("Content-Type") == "application/vnd.mapbox-vector-tile"
        tags.add((reply.getheader("ETag"), want is packed))
        connection.close()
    assert len(tags) == 2 and len({tag for tag, _ in tags}) == 2  # two forms, two ETags
    put(web, "vector", "1", packed[:20])
    assert fetch(web, "/tiles/vector/1", Accept_Encoding="identity")[0].status == 503
    assert fetch(web, "/tiles/vector/1")[0].status == 503  # http.client says identity
    bomb = gzip.compress(b"\0" * (100 << 20), 9)
    put(web, "vector", "2", bomb)
    assert fetch(web, "/tiles/vector/2", Accept_Encoding="identity")[0].status == 503
    assert fetch(web, "/tiles/vector/2", Accept_Encoding="gzip")[1] == bomb


def test_of_tiles_with_times_the_newest_that_is_not_after_t_is_given(web):
    for ms in (1000, 2000, 3000):
        put(web, "tm", "0123", f"at {ms}", "TM", ms)
    put(web, "tm", "01230", "child", "TM", 1500)

    def at(query):
        reply, body = fetch(web, "/tiles/tm/0123" + query)
        return body.decode() if reply.status == 200 else reply.status

    assert [at(f"?t={t}") for t in (999, 1000, 1999, 2000, 2500, 3000, 9999999)] == \
        [404, "at 1000", "at 1000", "at 2000", "at 2000", "at 3000", "at 3000"]
    assert at("") == "at 3000" and at("?x=1&t=2000") == "at 2000"
    assert [at(query) for query in ("?t=", "?t=x", "?t=-1", "?t=1.5", "?t=99999999999999999999")] == [400] * 5
    assert fetch(web, "/tiles/tm/4/4/10?t=2000")[0].status == 404
    assert fetch(web, "/tiles/imagery/0?t=1")[0].status == 400


def test_a_set_of_metadata_is_given_as_it_is(web):
    web.r.execute_command("TILE.META", "SET", "q2", "0123", "packet")
    assert fetch(web, "/tiles/q2/0123")[1] == b"packet"
    assert fetch(web, "/tiles/q2/3210")[0].status == 404


def test_cold_tiles_are_waited_for(web):
    for n in range(200):
        put(web, "imagery", f"0000{n % 4}{n // 4 % 4}{n // 16 % 4}{n // 64}", f"tile {n}")
    web.r.execute_command("DEBUG", "RELOAD")
    failures = []

    def ask(first):
        connection = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
        for n in range(first, 200, 8):
            connection.request("GET", f"/tiles/imagery/0000{n % 4}{n // 4 % 4}{n // 16 % 4}{n // 64}")
            if connection.getresponse().read() != b"tile %d" % n:
                failures.append(n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_tiles_that_are_only_in_shards_are_given(start, tmp_path):
    port = free_port()
    server = start("--http-port", str(port), "--tile-types", *TYPES, "--tile-sqlite", str(tmp_path / "shards"),
                   "--tile-cache", "64kb")
    server.http_port = port
    server.r = server.client()
    keys = [f"0123{n % 4}{n // 4 % 4}{n // 16}000" for n in range(64)]
    for key in keys:
        put(server, "imagery", key, f"tile {key} " * 300)
    for ms in (1000, 2000):
        put(server, "tm", "0123", f"at {ms}", "TM", ms)
    server.r.execute_command("TILE.SYNC")
    for _ in range(2):
        for key in keys + ["3333"]:
            reply, body = fetch(server, f"/tiles/imagery/{key}")
            assert (reply.status, body) == ((404, b"there is no such tile\n") if key == "3333" else
                                            (200, f"tile {key} ".encode() * 300))
    assert fetch(server, "/tiles/tm/0123?t=1999")[1] == b"at 1000"


def test_tilejson_tells_what_the_metadata_says(web):
    assert json.loads(fetch(web, "/tiles/imagery.json")[1]) == {
        "tilejson": "3.0.0", "name": "imagery", "scheme": "xyz",
        "tiles": [f"http://127.0.0.1:{web.http_port}/tiles/imagery/{{z}}/{{x}}/{{y}}"]}
    db = web.client(db=IMAGERY)
    db.hset("metadata", mapping={
        "name": "Luang Prabang", "format": "png", "bounds": "101.9,19.8,102.3,20.0", "center": "102,20,9",
        "minzoom": "3", "maxzoom": "14", "attribution": "(c) \"me\"", "description": "a map", "version": "2",
        "json": '{"vector_layers": [{"id": "roads"}]}', "type": "overlay"})
    db.execute_command("DEBUG", "RELOAD")
    reply, body = fetch(web, "/tiles/imagery.json", Host="tiles.example:80")
    assert reply.status == 200 and reply.getheader("Content-Type") == "application/json"
    assert json.loads(body) == {
        "tilejson": "3.0.0", "name": "Luang Prabang", "scheme": "xyz",
        "tiles": ["http://tiles.example:80/tiles/imagery/{z}/{x}/{y}.png"],
        "description": "a map", "attribution": "(c) \"me\"", "version": "2", "minzoom": 3, "maxzoom": 14,
        "bounds": [101.9, 19.8, 102.3, 20.0], "center": [102, 20, 9],
        "vector_layers": [{"id": "roads"}]}


def test_metadata_that_makes_no_sense_is_left_out(web):
    db = web.client(db=IMAGERY)
    for mapping in ({"bounds": "1,2", "center": "a,b,c", "minzoom": "x", "maxzoom": "99", "json": "{",
                     "format": "../x", "name": b"\xff\xfe", "version": ""},
                    {"description": "x" * (1 << 21), "json": '{"vector_layers": [' + "1," * (1 << 20) + "1]}"},
                    {"bounds": "nan,1,2,3", "center": "1,2,3,4,5", "json": "[]", "minzoom": "-1"}):
        db.delete("metadata")
        db.hset("metadata", mapping=mapping)
        told = json.loads(fetch(web, "/tiles/imagery.json", Host="x/../<y>")[1])
        assert told.keys() <= {"tilejson", "name", "scheme", "tiles", "version"}
        assert told["tiles"] == ["/tiles/imagery/{z}/{x}/{y}"]
    db.delete("metadata")
    db.set("metadata", "mine")
    assert fetch(web, "/tiles/imagery.json")[0].status == 200
    assert fetch(web, "/tiles/none.json")[0].status == 404




def test_bad_places_are_400_and_what_is_not_there_404(web):
    for path in ("/tiles/imagery/25/0/0", "/tiles/imagery/1/2/0", "/tiles/imagery/1/0/-1", "/tiles/imagery/4",
                 "/tiles/imagery/x", "/tiles/imagery/" + "0" * 25, "/tiles/imagery/1/0/0.P%20", "/tiles/imagery/",
                 "/tiles/imagery/0%00", "/tiles/imagery/%30"):
        assert fetch(web, path)[0].status == 400, path
    for path in ("/tiles", "/tiles/", "/tiles/imagery", "/tiles/none/0", "/tiles/imagery/0", "/tiles/imagery/1/0",
                 "/tiles/../etc/passwd", "/tiles/imagery/1/0/0/0", "/tiles/IMAGERY/0", "//tiles/imagery/0",
                 "/tiles/imagery/0/0/0", "/" + "x" * 5000, "/tiles/" + "y" * 5000 + "/0"):
        assert fetch(web, path)[0].status == 404, path


def test_other_methods_are_405(web):
    put(web, "imagery", "0", PNG)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        reply, _ = fetch(web, "/tiles/imagery/0", method)
        assert reply.status == 405 and reply.getheader("Allow") == "GET, HEAD"


def test_what_is_not_http_does_no_harm(web):
    put(web, "imagery", "0", PNG)
    for text in (b"GET /tiles/imagery/0\r\n\r\n", b"GET /tiles/imagery/0 HTTP/1.1\r\nHost: x\r\n",
                 b"GET /tiles/imagery/0?t=%00 HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET /tiles/imagery/0 HTTP/1.1\r\nHost: " + b"x" * 300 + b"\r\n\r\n" * 50,
                 b"HEAD /tiles/imagery.json HTTP/1.1\r\nHost: \x01\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", web.http_port), timeout=100) as raw:
            raw.sendall(text)  # and goes away
    assert fetch(web, "/tiles/imagery/0")[0].status == 200


def test_a_large_tile_is_given_whole(web):
    data = zlib.compress(bytes(range(256)) * 1000) + b"\0" * (8 << 20)
    put(web, "imagery", "0", data)
    assert fetch(web, "/tiles/imagery/0")[1] == data


def peak_kb(server):
    return int(open(f"/proc/{server.process.pid}/status").read().split("VmHWM:")[1].split()[0])


def test_slow_clients_of_large_tiles_do_not_fill_the_memory(web):
    """120 answers of 8 MB would be 1 GB; the small ones behind them are given when there is room."""
    put(web, "imagery", "0", b"x" * (8 << 20))
    put(web, "imagery", "1", PNG)
    slow = []
    for _ in range(120):
        raw = socket.create_connection(("127.0.0.1", web.http_port), timeout=100)
        raw.sendall(b"GET /tiles/imagery/0 HTTP/1.1\r\nHost: x\r\n\r\n")  # and takes nothing
        slow.append(raw)
    wait_until(lambda: peak_kb(web) > 256 * 1024)
    for _ in range(2000):  # turns of the executor: it answers all it may
        web.r.ping()
    assert peak_kb(web) < (2000 if SANITIZED else 700) * 1024
    waits = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
    waits.request("GET", "/tiles/imagery/1")
    for raw in slow:
        raw.close()
    assert waits.getresponse().read() == PNG


def test_slow_clients_of_tiles_that_are_unpacked_for_them_do_not_fill_the_memory(web):
    """30 answers of 60 MB would be 2 GB; packed they are small."""
    packed = gzip.compress(b"\0" * (60 << 20), 1)
    put(web, "vector", "0", packed)
    slow = []
    for _ in range(30):
        raw = socket.create_connection(("127.0.0.1", web.http_port), timeout=100)
        raw.sendall(b"GET /tiles/vector/0 HTTP/1.1\r\nHost: x\r\nAccept-Encoding: identity\r\n\r\n")
        slow.append(raw)
    assert slow[0].recv(12, socket.MSG_WAITALL)[9:] == b"200"  # and takes no more
    wait_until(lambda: peak_kb(web) > 256 * 1024)
    for _ in range(2000):
        web.r.ping()
    assert peak_kb(web) < (2000 if SANITIZED else 700) * 1024
    for raw in slow:
        raw.close()
    wait_until(lambda: fetch(web, "/tiles/vector/0", Accept_Encoding="identity")[0].status == 200)


def test_many_clients_are_served_while_commands_run(web):
    for n in range(64):
        put(web, "imagery", f"{n % 4}{n // 4 % 4}{n // 16}", f"tile {n}")
    failures = []

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100)
        for n in range(64):
            connection.request("GET", f"/tiles/imagery/{n % 4}{n // 4 % 4}{n // 16}")
            reply = connection.getresponse()
            if reply.read() != b"tile %d" % n:
                failures.append((n, reply.status))

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for n in range(200):
        web.r.incr("n")
    for thread in threads:
        thread.join()
    assert failures == []
    _, metrics = fetch(web, "/metrics")
    assert b'terrace_http_replies_total{status="200"} ' in metrics


def test_a_server_stops_while_clients_are_connected(web):
    put(web, "imagery", "0", PNG)
    connections = [http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=100) for _ in range(10)]
    for connection in connections:
        connection.request("GET", "/tiles/imagery/0")
        connection.getresponse().read()
        connection.request("GET", "/tiles/imagery/0")
    assert web.stop() == 0
