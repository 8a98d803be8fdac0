# SPDX-License-Identifier: Apache-2.0
"""List commands. Random sequences against Redis itself: python3 -m tests.wire.diff --only list."""
import pytest
import redis

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def error(call, *args):
    """What the server says against it; the client drops "ERR"."""
    with pytest.raises(redis.ResponseError) as caught:
        call(*args)
    return str(caught.value)


@pytest.fixture
def do(server):
    client = server.client(decode_responses=True)

    def execute(line, *more):
        """Words with spaces between; replies as they came, without what a client makes of them."""
        connection = client.connection_pool.get_connection("_")
        try:
            connection.send_command(*line.split(" "), *more)
            return connection.read_response()
        finally:
            client.connection_pool.release(connection)

    return execute


def fill(do, words, key="k"):
    do(f"DEL {key}")
    do(f"RPUSH {key} {words}")


def content(do, key="k"):
    return " ".join(do(f"LRANGE {key} 0 -1"))


def test_pushes_answer_the_length(do):
    assert do("LPUSH k a b c") == 3
    assert do("RPUSH k d") == 4
    assert content(do) == "c b a d"
    assert do("LPUSHX k x") == 5 and do("RPUSHX k y z") == 7
    assert do("LPUSHX none x") == 0 and do("RPUSHX none x") == 0
    assert do("EXISTS none") == 0
    assert do("TYPE k") == "list" and do("OBJECT ENCODING k") == "quicklist"


def test_elements_hold_every_byte(server):
    client = server.client()
    every = [bytes([byte]) * 3 for byte in range(256)] + [b"", bytes(range(256)) * 100]
    client.rpush("k", *every)
    assert client.lrange("k", 0, -1) == every
    assert [client.lindex("k", i) for i in range(len(every))] == every


def test_pops_take_one_or_some(do):
    fill(do, "a b c d e f")
    assert do("LPOP k") == "a" and do("RPOP k") == "f"
    assert do("LPOP k 0") == []
    assert do("LPOP k 2") == ["b", "c"]
    assert do("RPOP k 9") == ["e", "d"]
    assert do("EXISTS k") == 0
    assert do("LPOP k") is None and do("LPOP k 1") is None and do("RPOP k 0") is None


def test_bad_counts_are_refused_before_the_key_is_looked_at(do):
    do("SET s x")
    positive = "value is out of range, must be positive"
    assert error(do, "LPOP s -1") == positive and error(do, "LPOP s x") == positive
    assert error(do, "RPOP none -1") == positive
    assert error(do, "LPOP s 1") == WRONGTYPE
    assert error(do, "LPOP s 1 2") == "wrong number of arguments for 'lpop' command"


def test_a_range_is_clipped(do):
    fill(do, "a b c d e")
    for first, last, words in ((0, -1, "a b c d e"), (1, 2, "b c"), (-2, -1, "d e"), (-100, 0, "a"),
                               (3, 100, "d e"), (2, 1, ""), (5, 9, ""), (-1, -2, ""), (0, -6, "")):
        assert do(f"LRANGE k {first} {last}") == words.split()
    assert do("LRANGE none 0 -1") == []
    assert error(do, "LRANGE none x 0") == "value is not an integer or out of range"
    do("SET s x")
    assert error(do, "LRANGE s 0 -1") == WRONGTYPE


def test_an_element_is_read_and_set_by_its_index(do):
    fill(do, "a b c")
    assert [do(f"LINDEX k {i}") for i in (0, 2, -1, -3, 3, -4)] == ["a", "c", "c", "a", None, None]
    assert do("LSET k -1 z") == "OK" and do("LSET k 0 y") == "OK"
    assert content(do) == "y b z"
    assert error(do, "LSET k 3 x") == "index out of range"
    assert error(do, "LSET k -4 x") == "index out of range"
    assert error(do, "LSET none x x") == "no such key"
    assert error(do, "LSET k x x") == "value is not an integer or out of range"
    assert do("LINDEX none x") is None
    assert error(do, "LINDEX k x") == "value is not an integer or out of range"


def test_linsert_answers_the_length_or_why_not(do):
    fill(do, "a b c")
    assert do("LINSERT k BEFORE b x") == 4 and do("LINSERT k after c y") == 5
    assert content(do) == "a x b c y"
    assert do("LINSERT k BEFORE none x") == -1 and do("LINSERT none BEFORE a x") == 0
    assert error(do, "LINSERT k BESIDE a x") == "syntax error"


def test_lrem_counts_from_either_end(do):
    fill(do, "a b a c a b")
    assert do("LREM k -1 a") == 1 and content(do) == "a b a c b"
    assert do("LREM k 1 a") == 1 and content(do) == "b a c b"
    assert do("LREM k 0 b") == 2 and do("LREM k 0 b") == 0
    assert do("LREM k -9223372036854775808 a") == 1
    assert do("LREM k 5 c") == 1 and do("EXISTS k") == 0


def test_ltrim_keeps_a_range(do):
    fill(do, "a b c d e")
    assert do("LTRIM k 1 -2") == "OK" and content(do) == "b c d"
    assert do("LTRIM k -100 100") == "OK" and content(do) == "b c d"
    assert do("LTRIM k 5 1") == "OK" and do("EXISTS k") == 0
    assert do("LTRIM none 0 1") == "OK"


def test_lpos_finds_by_rank_count_and_maxlen(do):
    fill(do, "a b c 1 2 3 c c")
    assert do("LPOS k c") == 2 and do("LPOS k x") is None
    assert do("LPOS k c RANK 2") == 6 and do("LPOS k c RANK -1") == 7
    assert do("LPOS k c COUNT 2") == [2, 6] and do("LPOS k c COUNT 0") == [2, 6, 7]
    assert do("LPOS k c RANK -2 COUNT 0") == [6, 2]
    assert do("LPOS k c COUNT 0 MAXLEN 7") == [2, 6]
    assert do("LPOS k c MAXLEN 2") is None and do("LPOS k x COUNT 0") == []
    assert do("LPOS none c") is None and do("LPOS none c COUNT 1") == []
    assert error(do, "LPOS k c RANK 0").startswith("RANK can't be zero: use 1")
    assert do("LPOS k c RANK -9223372036854775808") == 7
    assert error(do, "LPOS k c COUNT -1") == "COUNT can't be negative"
    assert error(do, "LPOS k c MAXLEN -1") == "MAXLEN can't be negative"
    assert error(do, "LPOS k c RANK") == "syntax error"


def test_lmove_takes_and_puts_at_either_end(do):
    fill(do, "a b c")
    assert do("LMOVE k t LEFT RIGHT") == "a" and do("LMOVE k t right left") == "c"
    assert content(do, "t") == "c a" and content(do) == "b"
    assert do("RPOPLPUSH k t") == "b" and do("EXISTS k") == 0
    assert do("LMOVE none t LEFT LEFT") is None
    do("SET s x")
    assert error(do, "LMOVE t s LEFT LEFT") == WRONGTYPE and content(do, "t") == "b c a"
    assert error(do, "LMOVE s t LEFT LEFT") == WRONGTYPE
    assert do("LMOVE none s LEFT LEFT") is None
    assert error(do, "LMOVE none s LEFT UP") == "syntax error"


def test_lmove_within_one_list_turns_it(do):
    fill(do, "a b c")
    assert do("LMOVE k k LEFT RIGHT") == "a" and content(do) == "b c a"
    assert do("RPOPLPUSH k k") == "a" and content(do) == "a b c"
    assert do("LMOVE k k LEFT LEFT") == "a" and content(do) == "a b c"
    fill(do, "a")
    assert do("RPOPLPUSH k k") == "a" and content(do) == "a"


def test_lmpop_takes_from_the_first_list_that_has_some(do):
    fill(do, "a b c")
    assert do("LMPOP 2 none k LEFT") == ["k", ["a"]]
    assert do("LMPOP 1 k RIGHT COUNT 5") == ["k", ["c", "b"]]
    assert do("LMPOP 1 k RIGHT") is None
    do("SET s x")
    assert error(do, "LMPOP 2 s k LEFT") == WRONGTYPE
    assert error(do, "LMPOP 0 k LEFT") == "numkeys should be greater than 0"
    assert error(do, "LMPOP 1 k LEFT COUNT 0") == "count should be greater than 0"
    for line in ("LMPOP 2 k LEFT", "LMPOP 9223372036854775807 k LEFT", "LMPOP 1 k UP",
                 "LMPOP 1 k LEFT COUNT", "LMPOP 1 k LEFT COUNT 1 COUNT 1"):
        assert error(do, line) == "syntax error"


def test_a_long_list_survives_a_restart_and_work_at_both_ends(start):
    server = start()
    client = server.client()
    pipe = client.pipeline(transaction=False)
    for i in range(3000):
        pipe.rpush("k", f"r{i}")
        pipe.lpush("k", f"l{i}")
    pipe.execute()
    expected = [f"l{i}".encode() for i in reversed(range(3000))]
    expected += [f"r{i}".encode() for i in range(3000)]
    assert server.stop() == 0
    client = start().client()
    assert client.llen("k") == 6000
    assert client.lrange("k", 0, -1) == expected
    assert client.lrange("k", 2000, 3999) == expected[2000:4000]
    assert client.lindex("k", 4500) == expected[4500]
    client.linsert("k", "BEFORE", "r2000", "x")
    expected.insert(5000, b"x")
    client.ltrim("k", 4990, -1)
    assert client.lrange("k", 0, -1) == expected[4990:]


def test_cold_lists_are_read_and_changed(start):
    """With less memory than data most rows are on disk."""
    client = start("--hot-memory", "1mb").client()
    for key in range(20):
        client.rpush(f"k{key}", *(f"{key}.{i}." + "x" * 200 for i in range(1000)))
    for key in range(20):
        assert client.lindex(f"k{key}", 500).startswith(b"%d.500." % key)
        assert client.lpop(f"k{key}").startswith(b"%d.0." % key)
        assert len(client.lrange(f"k{key}", 0, -1)) == 999
        assert client.lrem(f"k{key}", 0, f"{key}.700." + "x" * 200) == 1
        client.ltrim(f"k{key}", 10, 19)
        assert [item.split(b".")[1] for item in client.lrange(f"k{key}", 0, -1)] == \
            [b"%d" % i for i in range(11, 21)]
