# SPDX-License-Identifier: Apache-2.0
"""What can be said to Redis 7.0, one line a form, and how an argument is drawn.

    WORD        itself
    <name>      drawn by the function arg_name below
    [ A B ]     sometimes
    ( A | B )   one of them
    { A B }     one to four times
    N{ A B }    how many times, then that many times (now and then the number is a lie)

A line may begin with a number, its weight (1 if absent; fractions are fine).
"""

FORMS = {
    "string": """
        2 APPEND <s> <v>
        DECR <n>
        DECRBY <n> <incr>
        2 GET <s>
        GETDEL <s>
        GETEX <s> [ ( EX <sec> | PX <ms> | EXAT <at> | PXAT <atms> | PERSIST ) ]
        2 GETRANGE <s> <idx> <idx>
        GETSET <s> <v>
        INCR <n>
        2 INCRBY <n> <incr>
        2 INCRBYFLOAT <n> <float>
        2 LCS <s> <s> [ LEN ] [ IDX ] [ MINMATCHLEN <cnt> ] [ WITHMATCHLEN ]
        MGET { <s> }
        MSET { <s> <v> }
        MSETNX { <s> <v> }
        PSETEX <s> <ms> <v>
        5 SET <s> <v> [ ( NX | XX ) ] [ GET ] [ ( EX <sec> | PX <ms> | EXAT <at> | PXAT <atms> | KEEPTTL ) ]
        2 SET <s> <v>
        2 SET <n> <nv>
        .5 SET <s> <big>
        SETEX <s> <sec> <v>
        SETNX <s> <v>
        2 SETRANGE <s> <off> <v>
        STRLEN <s>
        .5 SUBSTR <s> <idx> <idx>
        """,
    "bitmap": """
        3 SETBIT <s> <bitoff> <bit>
        2 GETBIT <s> <bitoff>
        2 BITCOUNT <s> [ <idx> <idx> [ ( BYTE | BIT ) ] ]
        3 BITPOS <s> <bit> [ <idx> [ <idx> [ ( BYTE | BIT ) ] ] ]
        2 BITOP ( AND | OR | XOR ) <s> { <s> }
        BITOP NOT <s> <s>
        4 BITFIELD <s> { ( GET <bt> <bo> | SET <bt> <bo> <bv> | INCRBY <bt> <bo> <bv> | OVERFLOW ( WRAP | SAT | FAIL ) ) }
        BITFIELD_RO <s> { GET <bt> <bo> }
        .3 BITFIELD_RO <s> SET <bt> <bo> <bv>
        SET <s> <v>
        GET <s>
        .3 APPEND <s> <big>
        """,
    "hash": """
        2 HDEL <h> { <f> }
        HEXISTS <h> <f>
        2 HGET <h> <f>
        2 HGETALL <h>
        2 HINCRBY <h> <f> <incr>
        2 HINCRBYFLOAT <h> <f> <float>
        HKEYS <h>
        HLEN <h>
        HMGET <h> { <f> }
        HMSET <h> { <f> <v> }
        2 HRANDFIELD <h> [ <rcnt> [ WITHVALUES ] ]
        2 HSCAN <h> <cur> [ MATCH <pat> ] [ COUNT <scnt> ]
        4 HSET <h> { <f> <hv> }
        .4 HSET <h> <bigpairs>
        HSETNX <h> <f> <hv>
        HSTRLEN <h> <f>
        HVALS <h>
        """,
    "list": """
        LINDEX <l> <idx>
        2 LINSERT <l> ( BEFORE | AFTER ) <e> <e>
        LLEN <l>
        2 LMOVE <l> <l> ( LEFT | RIGHT ) ( LEFT | RIGHT )
        2 LMPOP N{ <l> } ( LEFT | RIGHT ) [ COUNT <cnt> ]
        2 LPOP <l> [ <cnt> ]
        2 LPOS <l> <e> [ RANK <idx> ] [ COUNT <cnt> ] [ MAXLEN <cnt> ]
        2 LPUSH <l> { <e> }
        LPUSHX <l> { <e> }
        2 LRANGE <l> <idx> <idx>
        2 LREM <l> <idx> <e>
        LSET <l> <idx> <e>
        LTRIM <l> <idx> <idx>
        2 RPOP <l> [ <cnt> ]
        RPOPLPUSH <l> <l>
        3 RPUSH <l> { <e> }
        .4 RPUSH <l> <bigelements>
        RPUSHX <l> { <e> }
        .5 BLMOVE <l> <l> ( LEFT | RIGHT ) ( LEFT | RIGHT ) <to>
        .5 BLMPOP <to> N{ <l> } ( LEFT | RIGHT ) [ COUNT <cnt> ]
        .5 BLPOP { <l> } <to>
        .5 BRPOP { <l> } <to>
        .5 BRPOPLPUSH <l> <l> <to>
        """,
    "set": """
        4 SADD <t> { <m> }
        .4 SADD <t> <bigmembers>
        .4 SADD <t> <bigints>
        SCARD <t>
        SDIFF { <t> }
        SDIFFSTORE <t> { <t> }
        SINTER { <t> }
        SINTERCARD N{ <t> } [ LIMIT <cnt> ]
        SINTERSTORE <t> { <t> }
        SISMEMBER <t> <m>
        2 SMEMBERS <t>
        SMISMEMBER <t> { <m> }
        SMOVE <t> <t> <m>
        2 SPOP <t> [ <cnt> ]
        2 SRANDMEMBER <t> [ <rcnt> ]
        2 SREM <t> { <m> }
        2 SSCAN <t> <cur> [ MATCH <pat> ] [ COUNT <scnt> ]
        SUNION { <t> }
        SUNIONSTORE <t> { <t> }
        """,
    "zset": """
        5 ZADD <z> [ ( NX | XX ) ] [ ( GT | LT ) ] [ CH ] [ INCR ] { <score> <m> }
        3 ZADD <z> { <nscore> <m> }
        .4 ZADD <z> <bigscores>
        ZADD <z> { 0 <lm> }
        ZCARD <z>
        ZCOUNT <z> <min> <max>
        ZDIFF N{ <tz> } [ WITHSCORES ]
        ZDIFFSTORE <z> N{ <tz> }
        2 ZINCRBY <z> <score> <m>
        ZINTER N{ <tz> } [ <weights> ] [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]
        ZINTERCARD N{ <tz> } [ LIMIT <cnt> ]
        ZINTERSTORE <z> N{ <tz> } [ <weights> ] [ AGGREGATE ( SUM | MIN | MAX ) ]
        ZLEXCOUNT <z> <lmin> <lmax>
        ZMPOP N{ <z> } ( MIN | MAX ) [ COUNT <cnt> ]
        ZMSCORE <z> { <m> }
        ZPOPMAX <z> [ <cnt> ]
        ZPOPMIN <z> [ <cnt> ]
        ZRANDMEMBER <z> [ <rcnt> [ WITHSCORES ] ]
        2 ZRANGE <z> <idx> <idx> [ REV ] [ WITHSCORES ]
        2 ZRANGE <z> <min> <max> BYSCORE [ LIMIT <idx> <idx> ] [ WITHSCORES ]
        ZRANGE <z> <max> <min> BYSCORE REV [ LIMIT <idx> <idx> ] [ WITHSCORES ]
        ZRANGE <z> <lmin> <lmax> BYLEX [ LIMIT <idx> <idx> ]
        ZRANGE <z> <lmax> <lmin> BYLEX REV [ LIMIT <idx> <idx> ]
        .5 ZRANGE <z> <lmin> <lmax> ( BYLEX | BYSCORE ) [ REV ] [ LIMIT <idx> <idx> ] [ WITHSCORES ]
        ZRANGEBYLEX <z> <lmin> <lmax> [ LIMIT <idx> <idx> ]
        ZRANGEBYSCORE <z> <min> <max> [ WITHSCORES ] [ LIMIT <idx> <idx> ]
        ZRANGESTORE <z> <z> <idx> <idx> [ REV ]
        ZRANGESTORE <z> <z> <min> <max> BYSCORE [ LIMIT <idx> <idx> ]
        ZRANGESTORE <z> <z> <max> <min> BYSCORE REV [ LIMIT <idx> <idx> ]
        ZRANGESTORE <z> <z> <lmin> <lmax> BYLEX [ LIMIT <idx> <idx> ]
        ZRANK <z> <m>
        2 ZREM <z> { <m> }
        ZREMRANGEBYLEX <z> <lmin> <lmax>
        ZREMRANGEBYRANK <z> <idx> <idx>
        ZREMRANGEBYSCORE <z> <min> <max>
        ZREVRANGE <z> <idx> <idx> [ WITHSCORES ]
        ZREVRANGEBYLEX <z> <lmax> <lmin> [ LIMIT <idx> <idx> ]
        ZREVRANGEBYSCORE <z> <max> <min> [ WITHSCORES ] [ LIMIT <idx> <idx> ]
        ZREVRANK <z> <m>
        2 ZSCAN <z> <cur> [ MATCH <pat> ] [ COUNT <scnt> ]
        ZSCORE <z> <m>
        ZUNION N{ <tz> } [ <weights> ] [ AGGREGATE ( SUM | MIN | MAX ) ] [ WITHSCORES ]
        ZUNIONSTORE <z> N{ <tz> } [ <weights> ] [ AGGREGATE ( SUM | MIN | MAX ) ]
        .5 BZMPOP <to> N{ <z> } ( MIN | MAX ) [ COUNT <cnt> ]
        .5 BZPOPMAX { <z> } <to>
        .5 BZPOPMIN { <z> } <to>
        """,
    "key": """
        3 COPY <any> <any> [ DB <db> ] [ REPLACE ]
        3 DEL { <any> }
        2 EXISTS { <any> }
        2 EXPIRE <any> <xsec> [ <xopt> ]
        2 EXPIREAT <any> <xat> [ <xopt> ]
        EXPIRETIME <any>
        2 KEYS <pat>
        2 MOVE <any> <db>
        5 OBJECT ENCODING <any>
        .3 OBJECT REFCOUNT <any>
        .3 OBJECT IDLETIME <any>
        .3 OBJECT FREQ <any>
        2 PERSIST <any>
        2 PEXPIRE <any> <xms> [ <xopt> ]
        2 PEXPIREAT <any> <xatms> [ <xopt> ]
        PEXPIRETIME <any>
        2 PTTL <any>
        RANDOMKEY
        3 RENAME <any> <any>
        2 RENAMENX <any> <any>
        3 SCAN <cur> [ MATCH <pat> ] [ COUNT <scnt> ] [ TYPE <type> ]
        5 SORT <ltz> [ BY <by> ] [ LIMIT <idx> <idx> ] [ GET <get> [ GET <get> ] ] [ ( ASC | DESC ) ] [ ALPHA ] [ STORE <l> ]
        SORT_RO <ltz> [ BY <by> ] [ LIMIT <idx> <idx> ] [ GET <get> ] [ ( ASC | DESC ) ] [ ALPHA ]
        TOUCH { <any> }
        3 TTL <any>
        2 TYPE <any>
        UNLINK { <any> }
        .3 WAIT 0 <to>
        .3 MEMORY USAGE <any> [ SAMPLES <cnt> ]
        """,
    "db": """
        SELECT <db>
        .5 SWAPDB <db> <db>
        .5 FLUSHDB [ ( ASYNC | SYNC ) ]
        .2 FLUSHALL [ ( ASYNC | SYNC ) ]
        2 DBSIZE
        MOVE <any> <db>
        COPY <any> <any> DB <db>
        """,
    "connection": """
        PING [ <v> ]
        ECHO <v>
        SELECT <db>
        CLIENT SETNAME <name>
        CLIENT GETNAME
        HELLO [ <proto> ]
        .5 HELLO <proto> SETNAME <name>
        .3 AUTH <v>
        .3 AUTH <v> <v>
        .3 RESET
        .3 CLIENT NO-EVICT ( ON | OFF | <v> )
        .3 CLIENT ID <v>
        .3 CLIENT <v>
        .3 OBJECT <v> <any>
        .3 <v> <v>
        """,
    "transactions": """
        .3 MULTI
        .3 EXEC
        .3 DISCARD
        2 WATCH { <any> }
        UNWATCH
        """,
}

# What else a run of one group may use, so that types collide and keys end.
SPICE = """
    SET <any> <v>
    DEL <any>
    RENAME <any> <any>
    EXPIRE <any> <xsec>
    TYPE <any>
    EXISTS <any>
    PTTL <any>
    OBJECT ENCODING <any>
    RPUSH <any> { <e> }
    SADD <any> { <m> }
    ZADD <any> { <nscore> <m> }
    HSET <any> { <f> <hv> }
    """

# What clients that only block say.
WAITS = """
    BLPOP { <l> } 0
    BRPOP { <l> } 0
    BLMOVE <l> <l> ( LEFT | RIGHT ) ( LEFT | RIGHT ) 0
    BRPOPLPUSH <l> <l> 0
    BLMPOP 0 N{ <l> } ( LEFT | RIGHT ) [ COUNT 2 ]
    BZPOPMIN { <z> } 0
    BZPOPMAX { <z> } 0
    BZMPOP 0 N{ <z> } ( MIN | MAX ) [ COUNT 2 ]
    """

# What a sequence may begin with.
PRELOAD = """
    SET s1 <v>
    SET s2 <v>
    SET s3 <big>
    SET n1 <nv>
    SET n2 10
    HSET h1 f1 <hv> f2 <hv> f3 <hv> w 3
    HSET h2 f1 <nv> w 1 { <f> <hv> }
    RPUSH l1 { <e> } 3 1 2 { <e> }
    RPUSH l2 a b c a b { <e> }
    SADD t1 1 2 3 { <m> }
    SADD t2 a b c d 1 { <m> }
    ZADD z1 1 a 2 b 2 c 3 d { <nscore> <m> }
    ZADD z2 0 a 0 aa 0 b 0 c { 0 <lm> }
    ZADD z3 <bigscores>
    RPUSH l3 <bigelements>
    HSET h3 <bigpairs>
    SADD t3 <bigmembers>
    EXPIRE l1 <xsec>
    EXPIREAT s1 <at>
    """

LONG = b"x" * 64
KEYS = {
    "s": [b"s1", b"s2", b"s3"],
    "n": [b"n1", b"n2", b"s1"],
    "h": [b"h1", b"h2", b"h3"],
    "l": [b"l1", b"l2", b"l3"],
    "t": [b"t1", b"t2", b"t3"],
    "z": [b"z1", b"z2", b"z3"],
}
KEYS["tz"] = KEYS["z"] * 2 + KEYS["t"]
KEYS["ltz"] = KEYS["l"] + KEYS["t"] + KEYS["z"]
ODD_KEYS = [b"", b"\x00\xff\r\n", b"none", b"a b\"c"]
ALL_KEYS = sorted({key for keys in KEYS.values() for key in keys})

VALUES = [b"", b"0", b"1", b"-1", b"10", b"007", b"3.0e3", b"1.5", b"-0", b"abc", b"hello world",
          b"ohmytext", b"mynewtext", b"\x00\xff\r\n\x80", b"\xff\xf0\x00", b"9223372036854775807",
          b"-9223372036854775808", b"9223372036854775808", b"x" * 44, b"y" * 45, LONG, b"z" * 65,
          b"12345678901234567890", b"foobar", b" 1", b"1 ", b"nan", b"inf"]
NUMBERS = [b"0", b"1", b"-1", b"10", b"100", b"9223372036854775807", b"-9223372036854775808",
           b"9223372036854775800", b"1.5", b"-3.25", b"3.0e3", b"0.1", b"1e308", b"5", b"20", b"9999",
           b"10000", b"0.30000000000000004", b"1e17", b"123456789012345678", b"-0", b"inf"]
EDGE_INTS = [b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808",
             b"-9223372036854775809", b"9223372036854775806", b"2147483648", b"-2147483648",
             b"4294967296", b"18446744073709551615", b"18446744073709551616", b"1.5", b"abc", b"",
             b" 1", b"1 ", b"+1", b"-0", b"00", b"01", b"1e3", b"0x10", b"--1", b"-", b"1\x00"]
FLOATS = [b"1", b"-1", b"0", b"0.1", b"-0.1", b"1.5", b"3.0e3", b"1e-5", b"0.000001", b"100", b"5e-324",
          b"1e308", b"-1e308", b"1e-17", b"123456.789", b"3.141592653589793", b"1e5000", b"inf",
          b"-inf", b"nan", b"+inf", b"infinity", b"-0", b"abc", b"", b" 1", b"1 ", b"0x1p3", b"1e",
          b"9223372036854775807", b"0.2", b"0.30000000000000004", b"1e20", b"-1e-3", b"10.50"]
SCORES = [b"0", b"1", b"2", b"3", b"-1", b"1.5", b"2.5", b"-2.25", b"1e3", b"10", b"100", b"inf", b"-inf",
          b"+inf", b"-0", b"0.1", b"3.14159265358979", b"1e308", b"-1e308", b"5e-324", b"1e-7",
          b"9007199254740993", b"1e17", b"1e21", b"123456789012", b"0.30000000000000004"]
BAD_SCORES = [b"nan", b"abc", b"", b"(1", b"1 ", b" 1", b"+nan", b"1e400", b"0x10", b"infinity", b"1,5"]
MEMBERS = [b"a", b"b", b"c", b"d", b"e", b"1", b"2", b"3", b"10", b"-5", b"foo", b"bar", b"", b"\x00\xff",
           b"9223372036854775807", b"9223372036854775808", b"a1", b"a2", b"aa", b"b0", LONG, LONG + b"y",
           b"1.5", b"01", b"\x80", b"A"]
LEX = [b"-", b"+", b"[a", b"(a", b"[b", b"(b", b"[c", b"(c", b"[e", b"[", b"(", b"[\xff", b"(a1", b"[aa",
       b"[foo", b"(d"]
BAD_LEX = [b"a", b"", b"--", b"1", b"[ a", b"++"]
FIELDS = [b"f1", b"f2", b"f3", b"1", b"2", b"3", b"", b"\x00\xff", b"w", LONG, LONG + b"f"]
PATTERNS = [b"*", b"*", b"*", b"s*", b"?1", b"[hl]*", b"*1", b"", b"none", b"\\*", b"[^s]*", b"h[1-2",
            b"a*", b"f?", b"[a-c]*", b"*[0-9]", b"s1", b"\\s1", b"*\xff*", b"[z-a]1", b"**1", b"[\\s]1"]


class Args:
    """Draws arguments; rand is a random.Random."""

    def __init__(self, rand):
        self.rand = rand

    def draw(self, name):
        return getattr(self, "arg_" + name, None) or self.key_of(name)

    def key_of(self, name):
        return lambda: [self.key(name)]

    def key(self, name):
        dice = self.rand.random()
        if dice < 0.86:
            return self.rand.choice(KEYS[name])
        if dice < 0.97:
            return self.rand.choice(ALL_KEYS)
        return self.rand.choice(ODD_KEYS)

    def one(self, often, seldom, share=0.12):
        return [self.rand.choice(seldom if self.rand.random() < share else often)]

    def number(self, low, high):
        return b"%d" % self.rand.randint(low, high)

    def arg_any(self):
        return [self.rand.choice(ODD_KEYS if self.rand.random() < 0.06 else ALL_KEYS)]

    def arg_v(self):
        return [self.rand.choice(VALUES)]

    def arg_nv(self):
        return [self.rand.choice(NUMBERS)]

    def arg_big(self):
        size = self.rand.choice([100, 4095, 4096, 4097, 5000, 9000, 20000])
        unit = self.rand.choice([b"x", b"\x00", b"\xff", b"ab", bytes(range(256))])
        return [(unit * size)[:size]]

    def arg_hv(self):
        return [self.rand.choice(VALUES if self.rand.random() < 0.5 else NUMBERS)]

    def arg_e(self):
        if self.rand.random() < 0.02:
            return self.arg_big()
        return [self.rand.choice(MEMBERS if self.rand.random() < 0.8 else VALUES)]

    def arg_m(self):
        return [self.rand.choice(MEMBERS)]

    def arg_lm(self):
        return [self.rand.choice(MEMBERS[:5] + [b"aa", b"a1", b"", b"foo", b"\xff"])]

    def arg_f(self):
        return [self.rand.choice(FIELDS)]

    def arg_bigpairs(self):
        count = self.rand.choice([100, 127, 128, 129, 300])
        return [part for i in range(count) for part in (b"f%d" % i, self.rand.choice(VALUES))]

    def arg_bigelements(self):
        return [b"e%d" % (i % 97) for i in range(self.rand.choice([50, 128, 129, 400, 700]))]

    def arg_bigmembers(self):
        return [b"m%d" % i for i in range(self.rand.choice([100, 127, 128, 129, 400]))]

    def arg_bigints(self):
        return [b"%d" % (i * 7 - 300) for i in range(self.rand.choice([100, 511, 512, 513, 700]))]

    def arg_bigscores(self):
        count = self.rand.choice([100, 127, 128, 129, 400])
        return [part for i in range(count) for part in (b"%d" % (i % 50), b"m%d" % i)]

    def arg_incr(self):
        if self.rand.random() < 0.2:
            return [self.rand.choice(EDGE_INTS)]
        return [self.number(-20, 20)]

    def arg_float(self):
        return [self.rand.choice(FLOATS)]

    def arg_idx(self):
        dice = self.rand.random()
        if dice < 0.75:
            return [self.number(-6, 8)]
        if dice < 0.9:
            return [self.rand.choice([b"0", b"-1", b"100", b"-100", b"1000000", b"150", b"-130"])]
        return [self.rand.choice(EDGE_INTS)]

    def arg_off(self):
        if self.rand.random() < 0.1:
            return [self.rand.choice(EDGE_INTS + [b"536870912", b"536870911", b"-1"])]
        return [self.rand.choice([b"0", b"1", b"3", b"5", b"10", b"40", b"4090", b"4096", b"9000"])]

    def arg_cnt(self):
        if self.rand.random() < 0.12:
            return [self.rand.choice(EDGE_INTS)]
        return [self.rand.choice([b"0", b"1", b"1", b"2", b"3", b"5", b"100", b"1000", b"-1", b"-2"])]

    def arg_rcnt(self):
        if self.rand.random() < 0.08:
            return [self.rand.choice(EDGE_INTS)]
        return [self.rand.choice([b"0", b"1", b"2", b"3", b"5", b"100", b"1000", b"-1", b"-2", b"-7"])]

    def arg_scnt(self):
        if self.rand.random() < 0.1:
            return [self.rand.choice(EDGE_INTS + [b"0", b"-1"])]
        return [self.rand.choice([b"1", b"2", b"10", b"100", b"1000"])]

    def arg_cur(self):
        return self.one([b"0"], [b"abc", b"", b"-1", b"18446744073709551616", b"1.5", b" 0"], 0.06)

    def arg_score(self):
        return self.one(SCORES, BAD_SCORES, 0.06)

    def arg_nscore(self):
        return [self.rand.choice(SCORES[:11])]

    def arg_min(self):
        bounds = [b"-inf", b"-inf", b"0", b"(0", b"1", b"(1", b"-1", b"(1.5", b"2", b"(-inf", b"inf"]
        return self.one(bounds, BAD_SCORES + [b"((1", b"("], 0.05)

    def arg_max(self):
        bounds = [b"+inf", b"inf", b"3", b"(3", b"2", b"(2.5", b"10", b"(1e3", b"100", b"(inf", b"-inf", b"0"]
        return self.one(bounds, BAD_SCORES + [b"((1", b"("], 0.05)

    def arg_lmin(self):
        return self.one([b"-", b"-"] + LEX, BAD_LEX, 0.05)

    def arg_lmax(self):
        return self.one([b"+", b"+"] + LEX, BAD_LEX, 0.05)

    def arg_weights(self):
        count = self.rand.choice([1, 1, 2, 2, 3])
        words = [b"1", b"2", b"-1", b"0", b"0.5", b"inf", b"-inf", b"1e308"]
        return [b"WEIGHTS"] + [self.one(words, [b"abc", b"nan", b""], 0.04)[0] for _ in range(count)]

    def arg_pat(self):
        return [self.rand.choice(PATTERNS)]

    def arg_type(self):
        return self.one([b"string", b"list", b"hash", b"set", b"zset", b"ZSET"], [b"stream", b"nope", b""], 0.1)

    def arg_db(self):
        return self.one([b"0", b"0", b"1", b"2"], [b"15", b"16", b"-1", b"abc", b"9223372036854775808", b""], 0.12)

    def arg_to(self):
        return self.one([b"0.01", b"0", b"0.001"],
                        [b"-1", b"abc", b"", b"nan", b"inf", b"1e20", b"-0.5", b"1e400", b" 1"], 0.1)

    # Deadlines are far away, and no two are the same, so that a millisecond decides nothing.
    def arg_sec(self):
        return self.one([self.number(1000, 10**8)],
                        [b"0", b"-1", b"abc", b"9223372036854775807", b"9223372036854775",
                         b"9223372036854776", b"", b"1.5"], 0.1)

    def arg_ms(self):
        return self.one([self.number(10**6, 10**11)],
                        [b"0", b"-1", b"abc", b"9223372036854775807", b"-9223372036854775808", b"",
                         b"1.5"], 0.1)

    def arg_at(self):
        return self.one([self.number(4 * 10**9, 5 * 10**9)],
                        [b"1", b"0", b"-1", b"abc", b"9223372036854775807", b"9223372036854775", b""], 0.15)

    def arg_atms(self):
        return self.one([self.number(4 * 10**12, 5 * 10**12)],
                        [b"1", b"0", b"-1", b"abc", b"9223372036854775807", b""], 0.15)

    arg_xat, arg_xatms = arg_at, arg_atms

    def arg_xsec(self):
        return self.one([self.number(1000, 10**8)],
                        [b"0", b"-1", b"-100", b"abc", b"9223372036854775807", b"-9223372036854775808",
                         b"9223372036854775", b"", b"1.5"], 0.15)

    def arg_xms(self):
        return self.one([self.number(10**6, 10**11)],
                        [b"0", b"-1", b"-100", b"abc", b"9223372036854775807", b"-9223372036854775808",
                         b"", b"1.5"], 0.15)

    def arg_xopt(self):
        some = [b"NX", b"XX", b"GT", b"LT"]
        words = [self.rand.choice(some)]
        if self.rand.random() < 0.15:
            words.append(self.rand.choice(some + [b"ZZ"]))
        return words

    def arg_bit(self):
        return self.one([b"0", b"1"], [b"2", b"-1", b"abc", b"", b"01"], 0.08)

    def arg_bitoff(self):
        return self.one([b"0", b"1", b"7", b"8", b"9", b"63", b"100", b"1000", b"32767", b"32768", b"40000",
                         b"70000"],
                        [b"-1", b"4294967296", b"abc", b"", b"9223372036854775807", b"1.5"], 0.08)

    def arg_bt(self):
        return self.one([b"u1", b"u4", b"u8", b"i8", b"i5", b"u16", b"i16", b"u32", b"i32", b"u63", b"i64", b"i1"],
                        [b"u64", b"i65", b"u0", b"i0", b"x8", b"u", b"8", b"", b"u-1", b"U8", b"u08"], 0.06)

    def arg_bo(self):
        return self.one([b"0", b"1", b"4", b"7", b"8", b"15", b"100", b"#0", b"#1", b"#3", b"#100", b"32760",
                         b"32767", b"40000"],
                        [b"-1", b"#-1", b"#", b"abc", b"4294967296", b"9223372036854775807", b"", b"#abc",
                         b"#9223372036854775807"], 0.06)

    def arg_bv(self):
        return self.one([b"0", b"1", b"-1", b"2", b"7", b"15", b"100", b"127", b"128", b"255", b"-128", b"-129",
                         b"65535", b"9223372036854775807", b"-9223372036854775808"],
                        [b"abc", b"", b"9223372036854775808", b"1.5"], 0.06)

    def arg_by(self):
        return self.one([b"s*", b"n*", b"h*->f1", b"h*->w", b"nosort", b"none*", b"#"],
                        [b"", b"*", b"h*->", b"*->f1", b"s*->"], 0.1)

    def arg_get(self):
        return self.one([b"s*", b"n*", b"#", b"h*->f1", b"h*->w", b"none*"],
                        [b"", b"*", b"h*->", b"nopattern", b"l*"], 0.1)

    def arg_name(self):
        return self.one([b"me", b"name-1", b"x"], [b"a b", b"", b"a\nb", b"\xff"], 0.3)

    def arg_proto(self):
        return self.one([b"2", b"3"], [b"4", b"1", b"abc", b"-1", b""], 0.2)
