# SPDX-License-Identifier: Apache-2.0
"""When two replies are the same: exactly, as a bag, nearly, or by what a random answer may be."""
import time

from . import guard
from .resp import show

BAGS = {b"KEYS", b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"HKEYS", b"HVALS"}
NEAR = {b"TTL": 1, b"EXPIRETIME": 1, b"PTTL": 1000, b"PEXPIRETIME": 1000}  # parts of a second
RANDOM = {b"SPOP": b"SMEMBERS", b"SRANDMEMBER": b"SMEMBERS", b"HRANDFIELD": b"HGETALL",
          b"ZRANDMEMBER": b"ZRANGE", b"RANDOMKEY": b"KEYS"}
SCANS = {b"SCAN": 1, b"SSCAN": 1, b"HSCAN": 2, b"ZSCAN": 2}  # items that belong together
NUMBERS = {b"REFCOUNT", b"IDLETIME", b"FREQ", b"USAGE", b"ID"}
# What an encoding may be in Redis after changes, and what it is for the same content made anew.
FORGOTTEN = {(b"raw", b"embstr"), (b"raw", b"int"), (b"embstr", b"int"), (b"hashtable", b"listpack"),
             (b"hashtable", b"intset"), (b"skiplist", b"listpack")}
QUEUED = ("+", b"QUEUED")


def mode_of(args):
    name = args[0].upper()
    second = args[1].upper() if len(args) > 1 else b""
    if name in BAGS:
        return "bag"
    if name == b"HGETALL":
        return "pairs"
    if name in NEAR:
        return "near"
    if name in RANDOM:
        return "random"
    if name in SCANS:
        return "scan"
    if name in (b"SORT", b"SORT_RO"):
        return "sort"
    if name == b"OBJECT" and second == b"ENCODING":
        return "encoding"
    if name in (b"OBJECT", b"MEMORY", b"CLIENT") and second in NUMBERS:
        return "number"
    if name == b"HELLO":
        return "hello"
    if name == b"EXEC":
        return "exec"
    if name == b"DBSIZE":
        return "dbsize"
    return "exact"


def bag(items, width=1):
    groups = [repr(items[i:i + width]) for i in range(0, len(items), width)]
    return sorted(groups)


def is_many(reply):
    return reply[0] in "*~%>" and reply[1] is not None


def same(step, theirs, ours, before):
    """before is the reply of Redis to the step's probe, or None."""
    if theirs == ours:
        return step.mode != "random" or random_ok(step.args, ours, ours, before)
    if step.mode == "scan" and theirs[0] != "-" and not scan_is_whole(step.args):
        return True
    if theirs[0] != ours[0]:
        return False
    if step.args[0].upper().lstrip(b"B").startswith(b"Z"):
        theirs, ours = without_minus_zero(theirs), without_minus_zero(ours)
        before = without_minus_zero(before) if before else before
        if theirs == ours:
            return True
    if step.mode == "near":
        return near_ok(step.args, theirs, ours, before, time.monotonic() - step.begun)
    return LOOSE[step.mode](step.args, theirs, ours, before)


def without_minus_zero(reply):
    """Redis keeps the sign of a score in a skiplist and loses it in a listpack; ours has none."""
    if reply[1] == b"-0" and reply[0] in "$,":
        return (reply[0], b"0")
    if is_many(reply):
        return (reply[0], [without_minus_zero(item) for item in reply[1]])
    return reply


def never(args, theirs, ours, before):
    return False


def bag_ok(args, theirs, ours, before):
    return is_many(theirs) and is_many(ours) and bag(theirs[1]) == bag(ours[1])


def pairs_ok(args, theirs, ours, before):
    return is_many(theirs) and is_many(ours) and bag(theirs[1], 2) == bag(ours[1], 2)


def near_ok(args, theirs, ours, before, seconds):
    """The two servers met each command of the sequence at most so many seconds apart."""
    return (theirs[0] == ":" and theirs[1] > 0 and ours[1] > 0
            and abs(theirs[1] - ours[1]) <= NEAR[args[0].upper()] * (seconds + 1))


def dbsize_ok(args, theirs, ours, before):
    """Redis counts expired keys until it meets them; ours is exact."""
    return before is not None and is_many(before) and ours == (":", len(before[1]))


def number_ok(args, theirs, ours, before):
    return theirs[0] == ":"


def encoding_ok(args, theirs, ours, before):
    return (theirs[1], ours[1]) in FORGOTTEN


def hello_ok(args, theirs, ours, before):
    if not is_many(theirs) or not is_many(ours):
        return False
    their_map, our_map = (dict(zip([key[1] for key in r[1][0::2]], r[1][1::2])) for r in (theirs, ours))
    return list(their_map) == list(our_map) and their_map[b"proto"] == our_map[b"proto"]


def scan_items(reply):
    """Cursor and items of one step of a SCAN, or None."""
    if is_many(reply) and len(reply[1]) == 2 and is_many(reply[1][1]):
        return reply[1][0][1], reply[1][1][1]
    return None


def scan_is_whole(args):
    """Only a scan that begins with cursor 0 says the same everywhere."""
    at = 1 if args[0].upper() == b"SCAN" else 2
    return len(args) <= at or args[at] == b"0"


def scan_ok(args, theirs, ours, before):
    a, b = scan_items(theirs), scan_items(ours)
    if not a or not b:
        return False
    if a[0] != b"0" or b[0] != b"0":
        return True  # not complete: the runner goes on, except inside MULTI
    width = SCANS[args[0].upper()]
    return sorted(set(bag(a[1], width))) == sorted(set(bag(b[1], width)))


def cut(item):
    return item[1].split(b"\0")[0] if item[0] == "$" and item[1] else item


def sort_ok(args, theirs, ours, before):
    if not is_many(theirs) or not is_many(ours) or len(theirs[1]) != len(ours[1]):
        return False
    words = [arg.upper() for arg in args]
    gets = max(1, words[2:].count(b"GET"))
    by = args[words.index(b"BY", 2) + 1] if b"BY" in words[2:-1] else None
    if by is not None and b"*" not in by:  # not sorted: a set has no order
        if before not in (("+", b"set"), None):
            return False
        return b"LIMIT" in words or bag(theirs[1], gets) == bag(ours[1], gets)
    if b"ALPHA" not in words:
        return False
    # strcoll() stops at a zero byte, and equal weights have no order
    if [cut(item) for item in theirs[1]] == [cut(item) for item in ours[1]]:
        return True
    return bag(theirs[1], gets) == bag(ours[1], gets)


def sort_is_unordered(args):
    words = [arg.upper() for arg in args]
    return b"BY" in words[2:-1] and b"*" not in args[words.index(b"BY", 2) + 1]


def flat_pairs(reply):
    """[(item, partner or None)] of HRANDFIELD, ZRANDMEMBER ... with or without partners."""
    return [tuple(map(repr, item[1])) if is_many(item) else repr(item) for item in reply[1]]


def random_ok(args, theirs, ours, before):
    name = args[0].upper()
    if ours[0] == "-" or ours[1] is None or (is_many(ours) and not ours[1]):
        return theirs == ours
    if before is None or not is_many(before):
        return theirs == ours
    if name == b"RANDOMKEY":
        return ours in before[1]
    paired = name in (b"HRANDFIELD", b"ZRANDMEMBER")
    members = list(map(repr, before[1][0::2] if name == b"HRANDFIELD" else before[1]))
    with_partner = None
    if name == b"ZRANDMEMBER":
        if before[1] and is_many(before[1][0]):  # RESP3
            pairs = [(repr(p[1][0]), repr(p[1][1])) for p in before[1]]
        else:
            pairs = [(repr(before[1][i]), repr(before[1][i + 1])) for i in range(0, len(before[1]), 2)]
        members, with_partner = [pair[0] for pair in pairs], set(pairs)
    elif name == b"HRANDFIELD":
        with_partner = {(repr(before[1][i]), repr(before[1][i + 1])) for i in range(0, len(before[1]), 2)}
    if not is_many(ours):
        return repr(ours) in members
    if len(theirs[1]) != len(ours[1]):
        return False
    count = guard.integer(args[2]) if len(args) > 2 else 1
    got = flat_pairs(ours)
    if paired and len(args) > 3:
        if got and isinstance(got[0], str):
            got = [(got[i], got[i + 1]) for i in range(0, len(got) - 1, 2)]
        valid = all(pair in with_partner for pair in got)
    else:
        valid = all(item in members for item in got)
    return valid and (count is None or count < 0 or len(set(got)) == len(got))


LOOSE = {"exact": never, "exec": never, "bag": bag_ok, "pairs": pairs_ok,
         "number": number_ok, "encoding": encoding_ok, "hello": hello_ok, "scan": scan_ok,
         "dbsize": dbsize_ok, "sort": sort_ok, "random": random_ok}


def kind(reply):
    """What a reply is, without its values: mismatches are grouped by it."""
    if reply is None:
        return "nothing"
    if reply[0] == "-":
        text = reply[1].decode(errors="backslashreplace")
        return "-" + "".join(char for char in text if not char.isdigit())[:60]
    if reply[1] is None:
        return show(reply)
    return reply[0]
