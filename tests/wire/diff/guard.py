# SPDX-License-Identifier: Apache-2.0
"""Keeps a drawn command from blocking for ever, eating memory, or expiring in the middle of a run."""
import math

SOON = b"0.001"
TIMEOUT_LAST = {b"BLPOP", b"BRPOP", b"BZPOPMIN", b"BZPOPMAX", b"BRPOPLPUSH", b"BLMOVE"}
TIMEOUT_FIRST = {b"BLMPOP", b"BZMPOP"}
BLOCKING = TIMEOUT_LAST | TIMEOUT_FIRST
COUNTED = {b"SRANDMEMBER", b"HRANDFIELD", b"ZRANDMEMBER"}


def integer(arg):
    try:
        return int(arg) if arg and arg.strip() == arg else None
    except ValueError:
        return None


def number(arg):
    try:
        text = arg.decode("ascii")
        return float.fromhex(text) if "x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        return None


def timeout(arg):
    value = number(arg)
    if value is None or math.isnan(value) or math.isinf(value) or value < 0 or value > 1e15:
        return arg  # an error
    return SOON if value == 0 or value > 0.001 else arg


def clip(arg, low, high):
    """A number between low and high becomes a small one."""
    value = integer(arg)
    return b"%d" % (value % 1000) if value is not None and low < value < high else arg


def later(arg, least):
    value = integer(arg)
    return b"%d" % (value + least) if value is not None and 0 < value < least else arg


def safe(args, in_multi):
    name = args[0].upper()
    out = list(args)
    if name in BLOCKING and not in_multi and len(out) > 2:
        at = 1 if name in TIMEOUT_FIRST else len(out) - 1
        out[at] = timeout(out[at])
    elif name == b"WAIT" and len(out) > 1:
        out[1] = b"0"
    elif name == b"SETRANGE" and len(out) > 2:
        out[2] = clip(out[2], 100000, 536870912)
    elif name in (b"SETBIT", b"GETBIT") and len(out) > 2:
        out[2] = clip(out[2], 1000000, 1 << 32)
    elif name in (b"BITFIELD", b"BITFIELD_RO"):
        out[2:] = [b"#" + clip(arg[1:], 10000, 1 << 33) if arg[:1] == b"#" else
                   clip(arg, 1000000, 1 << 32) for arg in out[2:]]
    elif name in COUNTED and len(out) > 2:
        value = integer(out[2])
        if value is not None and -(1 << 63) < value < -1000:
            out[2] = b"-5"
    elif name in (b"EXPIRE", b"SETEX") and len(out) > 2:
        out[2] = later(out[2], 1000)
    elif name in (b"PEXPIRE", b"PSETEX") and len(out) > 2:
        out[2] = later(out[2], 1000000)
    elif name in (b"SET", b"GETEX"):
        for i in range(2, len(out)):
            word = out[i - 1].upper()
            if word == b"EX":
                out[i] = later(out[i], 1000)
            elif word == b"PX":
                out[i] = later(out[i], 1000000)
    elif name == b"SORT":
        # Equal weights have no order with BY and ALPHA: nothing may depend on it.
        words = [arg.upper() for arg in out]
        if b"BY" in words[2:] and b"ALPHA" in words[2:] and (b"STORE" in words or b"LIMIT" in words):
            out = [arg for i, arg in enumerate(out) if i < 2 or words[i] != b"ALPHA"]
    return tuple(out)


LEX = {b"ZLEXCOUNT", b"ZRANGEBYLEX", b"ZREVRANGEBYLEX", b"ZREMRANGEBYLEX"}


def levelled(args):
    """A lexical range means nothing if scores differ: the command that makes them equal, or None."""
    name = args[0].upper()
    at = 2 if name == b"ZRANGESTORE" else 1
    lexical = name in LEX or (name in (b"ZRANGE", b"ZRANGESTORE")
                              and b"BYLEX" in [arg.upper() for arg in args[at + 1:]])
    if not lexical or len(args) <= at:
        return None
    return (b"ZUNIONSTORE", args[at], b"2", args[at], args[at], b"WEIGHTS", b"1", b"-1")  # never -0
