# SPDX-License-Identifier: Apache-2.0
"""Channels, patterns, shard channels and keyspace events; redis-server is asked the same."""
import pytest

from talk import Link
from waiting import wait_until

LIMITED = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"


@pytest.fixture
def both(server, oracle):
    Link(oracle).say("FLUSHALL", "CONFIG RESETSTAT", "CONFIG SET notify-keyspace-events ''")
    return server, oracle


# ---- subscribing ----

SUBSCRIBING = """
SUBSCRIBE a b a
PSUBSCRIBE a* [bc]
SSUBSCRIBE s t
UNSUBSCRIBE a nothing
PUNSUBSCRIBE [bc]
SUNSUBSCRIBE t
PING
PING hello
UNSUBSCRIBE
PUNSUBSCRIBE
PING
PING hello
SUNSUBSCRIBE
PING
UNSUBSCRIBE
PUNSUBSCRIBE x
SUNSUBSCRIBE
GET none
""".split("\n")[1:-1]
ANSWERS = {"SUBSCRIBE a b a": 3, "PSUBSCRIBE a* [bc]": 2, "SSUBSCRIBE s t": 2,
           "UNSUBSCRIBE a nothing": 2}


@pytest.mark.parametrize("proto", (2, 3))
def test_subscribing_is_answered_as_redis_answers(both, proto):
    links = [Link(peer, proto) for peer in both]
    for line in SUBSCRIBING:
        replies = []
        for link in links:
            link.send([line.encode().split()])
            replies.append([link.hear() for _ in range(ANSWERS.get(line, 1))])
        assert replies[0] == replies[1], line


@pytest.mark.parametrize("what", ["SUBSCRIBE c", "PSUBSCRIBE c", "SSUBSCRIBE c"])
@pytest.mark.parametrize("line", ["GET k", "get k", "CONFIG GET port", "MULTI", "PUBLISH c m",
                                  "HELLO 3", "CLIENT ID", "GET", "NOSUCH", "PING a b", "ECHO x"])
def test_a_resp2_subscriber_may_do_little_and_is_told_as_redis_tells_it(both, what, line):
    ours, theirs = ([Link(peer).say(what, line)[1]] for peer in both)
    assert ours == theirs
    assert ours[0].startswith("-ERR ")


def test_a_resp2_subscriber_is_told_the_full_name_of_what_it_may_not_do(server):
    link = Link(server)
    assert link.say("SUBSCRIBE c", "CONFIG GET x")[1] == f"-ERR Can't execute 'config|get': {LIMITED}"


def test_a_resp3_subscriber_may_do_everything(server):
    link = Link(server, 3)
    assert link.say("SUBSCRIBE c", "SET k v", "GET k", "MULTI", "GET k", "EXEC")[1:] == [
        "+OK", "v", "+OK", "+QUEUED", "[v]"]


def test_reset_and_quit_end_subscriptions(server):
    link, other = Link(server), Link(server)
    link.say("SUBSCRIBE c", "PSUBSCRIBE c*", "SSUBSCRIBE s")
    assert link.say("RESET", "GET k") == ["+RESET", "(nil)"]
    assert other.say("PUBLISH c m", "SPUBLISH s m") == [":0", ":0"]
    link.say("SUBSCRIBE c")
    assert link.say("QUIT") == ["+OK"] and link.socket.recv(1) == b""
    assert other.say("PUBLISH c m", "PUBSUB CHANNELS") == [":0", "[]"]


def test_reset_ends_a_monitor_and_returns_to_resp2(server):
    link = Link(server, 3)
    assert link.say("SUBSCRIBE c", "RESET", "HELLO")[2].startswith("[server, redis, version, ")


# ---- messages ----

@pytest.mark.parametrize("proto", (2, 3))
def test_messages_have_the_form_of_redis(both, proto):
    came = []
    for peer in both:
        listener, publisher = Link(peer, proto), Link(peer)
        listener.say("SUBSCRIBE news", "PSUBSCRIBE n?ws", "SSUBSCRIBE news")
        assert publisher.say("PUBLISH news hello", "SPUBLISH news sharded", "PUBLISH other x",
                             ["PUBLISH", b"news", bytes(range(256))]) == [":2", ":1", ":0", ":2"]
        came.append(sorted(listener.came()))
    assert came[0] == came[1] and len(came[0]) == 5
    assert came[0][0][0] == ("[" if proto == 2 else ">")


def test_a_client_is_counted_and_told_once_for_each_subscription_that_fits(both):
    for peer in both:
        listener, other, publisher = Link(peer), Link(peer), Link(peer)
        listener.say("SUBSCRIBE c", "SUBSCRIBE c", "PSUBSCRIBE c*", "PSUBSCRIBE *")
        other.say("SUBSCRIBE c")
        assert publisher.say("PUBLISH c m", "PUBLISH cc m", "PUBLISH x m") == [":4", ":2", ":1"]
        came = listener.came()
        assert came[0] == "[message, c, m]" and sorted(came[1:3]) == [
            "[pmessage, *, c, m]", "[pmessage, c*, c, m]"]
        assert len(came) == 6 and came[-1] == "[pmessage, *, x, m]"
        assert other.came() == ["[message, c, m]"]


def test_messages_keep_their_order(server):
    listener, publisher = Link(server), Link(server)
    listener.say("SUBSCRIBE a", "SUBSCRIBE b")
    publisher.say(*[f"PUBLISH {'ab'[i % 2]} {i}" for i in range(1000)])
    assert listener.came() == [f"[message, {'ab'[i % 2]}, {str(i)}]" for i in range(1000)]


def test_a_publisher_hears_its_own_message_after_the_reply(server):
    """Redis 7.0 puts it in front of the reply, later versions behind, as we do."""
    link = Link(server, 3)
    link.say("SUBSCRIBE c")
    assert link.say("PUBLISH c m") == [":1"]
    assert link.hear() == ">[message, c, m]"


@pytest.mark.parametrize("durability", ["everysec", "always"])
def test_a_message_is_for_who_was_subscribed_when_it_was_published(start, durability):
    server = start("--durability", durability)
    link = Link(server, 3)
    for _ in range(20):
        link.send([line.split() for line in (
            b"SET k v", b"PUBLISH c early", b"SUBSCRIBE c", b"PUBLISH c heard", b"SET k v",
            b"UNSUBSCRIBE c", b"PUBLISH c late", b"PING end")])
        heard = []
        while not heard or heard[-1] != "end":
            heard.append(link.hear())
        assert [one for one in heard if "message" in one] == [">[message, c, heard]"]
        assert [one for one in heard if one[0] == ":"] == [":0", ":1", ":0"]
        assert heard.index(">[message, c, heard]") < heard.index(">[unsubscribe, c, :0]")


def test_subscribing_is_told_to_a_client_that_wants_no_replies(both):
    heard = []
    for peer in both:
        link = Link(peer)
        link.send([line.split() for line in (
            b"CLIENT REPLY OFF", b"SUBSCRIBE a b", b"UNSUBSCRIBE a b", b"CLIENT REPLY ON",
            b"CLIENT REPLY SKIP", b"SSUBSCRIBE s", b"PING")])
        heard.append([link.hear() for _ in range(7)])
    assert heard[0] == heard[1]


def test_messages_reach_a_client_that_waits(server):
    link, other = Link(server, 3), Link(server)
    link.say("SUBSCRIBE c")
    link.send([[b"BLPOP", b"k", b"0"]])
    other.wait_for_blocked()
    other.say("PUBLISH c m")
    assert link.hear() == ">[message, c, m]"
    other.say("RPUSH k v")
    assert link.hear() == "[k, v]"


# ---- PUBSUB ----

def test_pubsub_tells_who_listens_to_what(both):
    replies = []
    for peer in both:
        one, two, asking = Link(peer), Link(peer), Link(peer)
        one.say("SUBSCRIBE a1", "SUBSCRIBE b1", "PSUBSCRIBE a*", "SSUBSCRIBE s1")
        two.say("SUBSCRIBE a1", "PSUBSCRIBE a*", "PSUBSCRIBE z", "SSUBSCRIBE s1", "SSUBSCRIBE s2")
        lists = [sorted(reply[1:-1].split(", ")) for reply in asking.say(
            "PUBSUB CHANNELS", "PUBSUB CHANNELS a?", "PUBSUB CHANNELS nope", "PUBSUB SHARDCHANNELS",
            "PUBSUB SHARDCHANNELS *2")]
        rest = asking.say(
            "PUBSUB NUMPAT", "PUBSUB NUMSUB", "PUBSUB NUMSUB a1 b1 none a1", "PUBSUB SHARDNUMSUB",
            "PUBSUB SHARDNUMSUB s1 s2 a1", "PUBSUB CHANNELS a b", "PUBSUB NUMPAT x", "PUBSUB",
            "PUBSUB NOPE", "PUBSUB SHARDCHANNELS a b", "PUBLISH a", "SPUBLISH a b c", "SUBSCRIBE",
            "PSUBSCRIBE", "SSUBSCRIBE")
        replies.append((lists, rest))
        for link in (one, two):
            link.say("RESET")
        assert asking.say("PUBSUB CHANNELS", "PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS") == [
            "[]", ":0", "[]"]
    assert replies[0] == replies[1]
    assert replies[0][0][0] == ["a1", "b1"]


def test_a_closed_client_is_not_subscribed(server):
    listener, asking = Link(server), Link(server)
    listener.say("SUBSCRIBE c", "PSUBSCRIBE *")
    listener.close()
    wait_until(lambda: asking.say("PUBSUB NUMSUB c") == ["[c, :0]"])
    assert asking.say("PUBLISH c m", "PUBSUB NUMPAT") == [":0", ":0"]


# ---- MULTI ----

def test_a_message_in_a_multi_leaves_with_exec_and_not_before(server):
    listener, publisher = Link(server), Link(server)
    listener.say("SUBSCRIBE c")
    assert publisher.say("MULTI", "PUBLISH c 1", "SET k v", "PUBLISH c 2") == [
        "+OK"] + 3 * ["+QUEUED"]
    assert listener.came() == []
    assert publisher.say("EXEC") == ["[:1, +OK, :1]"]
    assert listener.came() == ["[message, c, 1]", "[message, c, 2]"]


@pytest.mark.parametrize("ending, reply", [
    (["DISCARD"], "+OK"),
    (["NOSUCH", "EXEC"], "-EXECABORT Transaction discarded because of previous errors."),
])
def test_messages_of_a_multi_that_does_not_run_are_not_sent(server, ending, reply):
    listener, publisher = Link(server), Link(server)
    listener.say("SUBSCRIBE c", "PSUBSCRIBE *")
    Link(server).say("CONFIG SET notify-keyspace-events KEA")
    assert publisher.say("MULTI", "PUBLISH c m", "SET k v", *ending)[-1] == reply
    assert listener.came() == []


def test_messages_of_an_exec_that_a_watch_stopped_are_not_sent(server):
    listener, publisher = Link(server), Link(server)
    publisher.say("WATCH k")
    Link(server).say("SET k other", "CONFIG SET notify-keyspace-events KEA")
    listener.say("PSUBSCRIBE *")
    assert publisher.say("MULTI", "PUBLISH c m", "SET k v", "EXEC")[-1] == "(nil array)"
    assert listener.came() == []


def test_messages_of_an_exec_that_the_disk_refused_are_not_sent(start):
    server = start("--disk-reserve", "1000000gb", "--notify-keyspace-events", "KEA")
    listener, publisher = Link(server), Link(server)
    listener.say("PSUBSCRIBE *")
    assert publisher.say("MULTI", "PUBLISH c m", "SET k v", "EXEC")[-1].startswith("-ERR disk")
    assert listener.came() == []
    assert publisher.say("PUBLISH c m") == [":1"]
    assert listener.came() == ["[pmessage, *, c, m]"]


def test_an_exec_that_met_something_cold_sends_its_messages_once(server):
    listener, publisher = Link(server), Link(server)
    publisher.say("SET cold v", "CONFIG SET notify-keyspace-events Eg$", "DEBUG RELOAD")
    listener.say("PSUBSCRIBE *")
    assert publisher.say("MULTI", "PUBLISH c m", "SET k v", "GET cold", "DEL cold", "EXEC")[-1] == (
        "[:1, +OK, v, :1]")
    assert listener.came() == ["[pmessage, *, c, m]", "[pmessage, *, __keyevent@0__:set, k]",
                               "[pmessage, *, __keyevent@0__:del, cold]"]


# ---- keyspace events ----

SCRIPT = """
set s 1|set s 2 EX 1000|set s 3 XX KEEPTTL|set s 4 NX|setnx s2 x|setex s3 1000 v|psetex s4 100000 v
getset s 5|getdel s4|getex s EX 100|getex s PERSIST|getex s|append s xyz|append snew xyz
setrange s 1 zz|setrange s5 0 ''|setrange s5 3 abc|incr n|incrby n 5|decr n|decrby n 3
incrbyfloat n 1.5|mset m1 a m2 b|msetnx m3 a m4 b|msetnx m3 a m5 b|setbit bits 7 1|setbit bits 7 1
bitfield bits SET u8 0 255|bitfield bits GET u8 0|bitfield bits OVERFLOW FAIL INCRBY u8 0 255
bitop AND dest bits s|bitop AND dest none1 none2|bitop NOT dest bits|expire s 1000|expire s 2000 LT
expire s -1|expire none 10|pexpire s2 100000|expireat s2 99999999999|pexpireat s2 99999999999000
persist s2|persist s2|expire s2 0|rename m1 m9|renamenx m2 m9|renamenx m2 m10|copy m9 m11
copy m9 m11|copy m9 m11 REPLACE|move m11 1|move m11 1|touch m9|unlink m10 none|del m9 n none
hset h a 1 b 2|hset h a 1|hsetnx h a 3|hsetnx h c 3|hmset h d 4|hincrby h a 5|hincrbyfloat h b 1.5
hdel h a none|hdel h none|hdel h b c d|rpush l a b c d e f|lpush l z|rpushx l y|lpushx none y
lset l 0 q|linsert l BEFORE a 0|linsert l AFTER none 0|lrem l 1 a|lrem l 1 none|ltrim l 0 5
ltrim l 0 100|lpop l|rpop l 2|lmove l l2 LEFT RIGHT|lmove l2 l2 LEFT RIGHT|rpoplpush l2 l3
rpoplpush none l3|blpop l3 0|brpop l l3 0|rpush l a b c|blmove l l4 LEFT LEFT 0|brpoplpush l l4 0
lmpop 2 none l LEFT COUNT 10|blmpop 0 1 l4 RIGHT COUNT 10|rpush lt a b|ltrim lt 5 6
sadd st a b c 1 2 3|sadd st a|srem st a none|srem st none|spop st|spop st 2|sadd st2 x y z
smove st2 st3 x|smove st2 st3 none|smove st2 st2 y|sinterstore sd st2 st3|sunionstore sd st2 st3
sinterstore sd none st3|sdiffstore sd st2 st3|spop sd 10|srem st2 y z|zadd z 1 a 2 b 3 c|zadd z 1 a
zadd z 5 a|zadd z XX 7 none|zadd z INCR 3 a|zadd z NX INCR 3 a|zincrby z 2 b|zrem z none|zrem z a
zpopmin z|zpopmax z 5|zadd z 1 a 2 b 3 c 4 d 5 e 6 f|zremrangebyscore z 1 1
zremrangebyscore z 100 200|zremrangebyrank z 0 0|zremrangebylex z - [a|zunionstore zd 2 z z
zinterstore zd 2 z none|zinterstore zd 2 z z|zdiffstore zd 2 z z|zrangestore zd z 0 -1
zrangestore zd z 100 200|zmpop 1 z MIN COUNT 1|bzpopmin z 0|bzpopmax z 0|bzmpop 0 1 z MIN
zadd zz 1 a|zpopmin zz|zmpop 1 zz MAX|rpush srt 3 1 2|sort srt STORE srt2|sort none STORE srt2
get none|hget none f|lrange none 0 -1|exists none|type none|ttl none|object encoding none
strlen none|mget none s|select 1|set other 1|select 0|swapdb 0 1|swapdb 0 1
set x 1 PX 100000 GET|set x 2 GET|set y 1|pexpireat y 1|set y 1|getex y PXAT 1|sadd k m|set k str
rpush k2 a|sunionstore k2 k3|hset hh f v|del hh|incr k|lpush k v|flushdb|set q 1|flushall
multi|set a 1|incr a|incr a|get nonex|exec|randomkey|lpos none a|scard none|zscore none a
hlen none|llen none|getrange none 0 1|sismember none a|zrandmember none|hgetall none|unlink a
""".replace("\n", "|").strip("|").split("|")


def events_of(peer, flags, reload=False):
    """What is published after every command of the script."""
    link, listener, control = Link(peer), Link(peer), Link(peer)
    assert control.say(f"CONFIG SET notify-keyspace-events '{flags}'") == ["+OK"]
    listener.say("PSUBSCRIBE __key*")
    events = []
    for line in SCRIPT:
        link.say(line)
        if reload:
            assert control.say("DEBUG RELOAD") == ["+OK"]
        events.append((line, listener.came()))
    return events


@pytest.mark.parametrize("flags", ["KEA", "KEAmn", "Kg$", "Elsz", "Eh", "Emn", "Kn", "Km", "KEx", ""])
def test_events_are_those_of_redis_in_the_same_order(both, flags):
    ours, theirs = (events_of(peer, flags) for peer in both)
    for mine, other in zip(ours, theirs):
        assert mine == other
    if flags == "KEAmn":
        assert sum(len(events) for _, events in ours) > 400


def test_events_do_not_depend_on_where_the_keys_are(both):
    ours, theirs = both
    assert events_of(ours, "KEAmn", reload=True) == events_of(theirs, "KEAmn")


@pytest.mark.parametrize("flags, told", [
    ("A", "A"), ("KEA", "AKE"), ("K$", "$K"), ("Exg", "gxE"), ("Kg$lshzxetd", "AK"), ("", ""),
    ("KEm", "KEm"), ("KEAm", "AKEm"), ("E", "E")])
def test_config_tells_the_flags_as_redis_does(both, flags, told):
    for peer in both:
        assert Link(peer).say(f"CONFIG SET notify-keyspace-events '{flags}'",
                              "CONFIG GET notify-keyspace-events") == [
            "+OK", f'[notify-keyspace-events, {told or chr(34) * 2}]']


def test_flags_that_do_not_exist_are_refused_as_redis_does(both):
    ours, theirs = (Link(peer).say("CONFIG SET notify-keyspace-events KEQ") for peer in both)
    assert ours == theirs and ours[0].startswith("-ERR CONFIG SET failed")


def test_events_without_k_and_e_are_not_published(server):
    assert all(events == [] for _, events in events_of(server, "A"))


def test_channels_carry_the_number_of_the_database_and_every_byte_of_the_key(both):
    key = bytes(range(256))
    came = []
    for peer in both:
        link, listener = Link(peer), Link(peer)
        link.say("CONFIG SET notify-keyspace-events KEA")
        listener.say("PSUBSCRIBE *")
        link.say("SELECT 7", ["SET", key, "v"], ["DEL", key], "SET '' v")
        came.append(listener.came())
    assert came[0] == came[1] and len(came[0]) == 6
    assert came[0][1].startswith("[pmessage, *, __keyevent@7__:set, ")
    assert came[0][4] == '[pmessage, *, __keyspace@7__:, set]'


@pytest.mark.parametrize("cold", [False, True])
def test_a_key_expires_with_an_event_that_nobody_asked_for(server, cold):
    link, listener = Link(server), Link(server)
    link.say("CONFIG SET notify-keyspace-events Kx", "DEBUG SET-ACTIVE-EXPIRE 0", "SELECT 3",
             "SET k v PX 1", "RPUSH l 1 2 3", "PEXPIRE l 1")
    if cold:
        assert link.say("DEBUG RELOAD") == ["+OK"]
    listener.say("PSUBSCRIBE *")
    link.say("DEBUG SET-ACTIVE-EXPIRE 1")
    assert sorted(listener.hear() for _ in range(2)) == [
        "[pmessage, *, __keyspace@3__:k, expired]", "[pmessage, *, __keyspace@3__:l, expired]"]
    assert link.say("EXISTS k l", "DBSIZE") == [":0", ":0"]


def test_a_write_to_an_expired_key_tells_of_its_end_first(both):
    came = []
    for peer in both:
        link, listener = Link(peer), Link(peer)
        link.say("CONFIG SET notify-keyspace-events KEAn", "DEBUG SET-ACTIVE-EXPIRE 0",
                 "SET k v PX 1", "SADD s m", "PEXPIRE s 1", "DEBUG SLEEP 0.005")
        listener.say("PSUBSCRIBE *")
        link.say("INCR k", "DEL s", "DEBUG SET-ACTIVE-EXPIRE 1")
        came.append(listener.came())
    assert came[0] == came[1]
    assert came[0][0] == "[pmessage, *, __keyspace@0__:k, expired]"


def test_events_come_for_blocked_clients_in_the_order_of_redis(both):
    came = []
    for peer in both:
        waiting, link, listener = Link(peer), Link(peer), Link(peer)
        link.say("CONFIG SET notify-keyspace-events EA")
        listener.say("PSUBSCRIBE *")
        waiting.send([[b"BLMOVE", b"a", b"b", b"LEFT", b"RIGHT", b"0"]])
        link.wait_for_blocked()
        link.say("RPUSH a x y")
        assert waiting.hear() == "x"
        came.append(listener.came())
    assert came[0] == came[1] and len(came[0]) == 3


def test_flags_change_at_run_time(server):
    link, listener = Link(server), Link(server)
    listener.say("PSUBSCRIBE *")
    link.say("SET k 1", "CONFIG SET notify-keyspace-events E$", "SET k 2", "LPUSH l x",
             "CONFIG SET notify-keyspace-events El", "SET k 3", "LPUSH l x",
             "CONFIG SET notify-keyspace-events ''", "SET k 4")
    assert listener.came() == ["[pmessage, *, __keyevent@0__:set, k]",
                               "[pmessage, *, __keyevent@0__:lpush, l]"]
