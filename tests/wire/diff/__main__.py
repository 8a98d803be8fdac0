# SPDX-License-Identifier: Apache-2.0
"""/usr/bin/python3 -m tests.wire.diff --seconds N --only zset

Plays random sequences to Redis and to terraced, and prints what differs, grouped by command, with a
minimal sequence each.
"""
import argparse
import collections
import random
import sys
import time

from . import catalogue, gen
from .cases import read_case
from .resp import line
from .runner import Pair, describe
from .servers import terraced_path
from .shrink import shrink
from .wanted import WANTED


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m tests.wire.diff", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", default="", metavar="GROUP,COMMAND",
                        help="groups (%s) or commands; a command is drawn with its group, ten times as often"
                        % " ".join(catalogue.FORMS))
    parser.add_argument("--terraced", default=terraced_path(), metavar="PATH")
    parser.add_argument("--itself", action="store_true", help="Redis against Redis: finds faults of this tool")
    parser.add_argument("--seed", type=int, help="play one sequence of this seed and print it whole")
    parser.add_argument("--case", metavar="FILE", help="play the redis-cli lines of a file (- for standard input)")
    parser.add_argument("--start", type=int, default=None, help="first seed; random if not given")
    parser.add_argument("--reload", type=float, default=None, metavar="SHARE",
                        help="share of commands followed by DEBUG RELOAD on terraced; 0.05 for half of "
                        "the sequences if not given")
    parser.add_argument("--inject", type=int, default=0, metavar="N",
                        help="DEBUG COLD-INJECT of 1 to N, drawn for each sequence, before each of its commands")
    parser.add_argument("--plain", action="store_true", help="the reference is terraced, not Redis")
    parser.add_argument("--proto", type=int, choices=(2, 3), help="both, one in three RESP3, if not given")
    parser.add_argument("--length", type=int, default=30, help="commands a sequence, at most")
    parser.add_argument("--hot-memory", default="1mb")
    parser.add_argument("--each", type=int, default=3, help="mismatches printed a command")
    parser.add_argument("--list", action="store_true", help="print the commands of the catalogue and stop")
    return parser.parse_args()


def groups_of(only):
    groups, commands = [], set()
    for word in filter(None, only.split(",")):
        if word in catalogue.FORMS:
            groups.append(word)
            continue
        found = [group for group in catalogue.FORMS if word.upper() in gen.names_of(group)]
        if not found:
            sys.exit(f"no group or command {word!r}; groups: {' '.join(catalogue.FORMS)}")
        commands.add(word.upper())
        groups += found
    return list(dict.fromkeys(groups)), commands


def make(generator, args, seed):
    """Seed to (items, protocol version)."""
    rand = random.Random(seed)
    proto = args.proto or (3 if rand.random() < 0.34 else 2)
    share = args.reload if args.reload is not None else rand.choice((0, 0.05))
    return generator.sequence(rand, 3, args.length, share), proto


class Report:
    def __init__(self, each):
        self.each = each
        self.found = {}  # signature -> [count, items, mismatch, seed, proto]
        self.counts = collections.Counter()

    def wants(self, signature):
        of_command = [key for key in self.found if key[0] == signature[0]]
        return signature not in self.found and len(of_command) < self.each

    def add(self, signature, items, mismatch, seed, proto):
        self.found[signature] = [items, mismatch, seed, proto]

    def print(self):
        by_command = collections.defaultdict(list)
        for signature, entry in self.found.items():
            by_command[signature[0]].append(entry)
        for name in sorted(by_command):
            print(f"\n== {name}: {self.counts[name]} mismatches")
            for items, mismatch, seed, proto in by_command[name]:
                print(f" - seed {seed}, RESP{proto}")
                for text in describe(items):
                    print(f"     {text}")
                for text in mismatch.lines():
                    print(text)


def main():
    args = arguments()
    if args.list:
        for group in catalogue.FORMS:
            print(f"{group}: {' '.join(gen.names_of(group))}")
        return 0
    groups, commands = groups_of(args.only)
    pair = Pair(args.terraced, args.hot_memory, args.itself, args.plain)
    try:
        return run(args, pair, groups, commands)
    finally:
        pair.close()


def run(args, pair, groups, commands):
    missing = sorted(pair.missing & WANTED)
    print(f"missing commands ({len(missing)} of {len(WANTED)}): {' '.join(missing) or 'none'}", flush=True)
    if not pair.reload:
        print("DEBUG RELOAD is missing: nothing is evicted on purpose")
    generator = gen.Generator(groups, pair.missing, commands)
    if not generator.forms:
        print("nothing to play")
        return 1
    if args.seed is not None or args.case:
        if args.case:
            text = sys.stdin.read() if args.case == "-" else open(args.case).read()
            items, proto = read_case(text.splitlines()), args.proto or 2
        else:
            items, proto = make(generator, args, args.seed)
        found = pair.play(items, proto, args.inject)
        print("\n".join(describe(items)))
        print(f"RESP{proto}")
        print("\n".join(found.lines()) if found else "the same")
        return 1 if found else 0
    if args.inject and pair.cold_injected() is None:
        print("DEBUG COLD-INJECT or the field cold_injected of INFO is missing")
        return 1
    report = Report(args.each)
    first = args.start if args.start is not None else random.randrange(1 << 31)
    begin = time.monotonic()
    seed, command_count = first, 0
    # Weights change after mismatches; --seed makes the same sequence as long as they have not.
    while time.monotonic() < begin + args.seconds:
        items, proto = make(generator, args, seed)
        command_count += len(items)
        inject = random.Random(seed).randint(1, args.inject) if args.inject else 0

        def play(some, version=proto, count=inject):
            return pair.play(some, version, count)

        found = play(items)
        if found:
            name = found.name
            if found.note == "final state" or found.theirs is None:
                items, found = shrink(play, items, found)
                name = items[-1][1][0].upper().decode(errors="backslashreplace")
            signature = (name, *found.signature[1:])
            report.counts[name] += 1
            if report.wants(signature):
                items, found = shrink(play, items, found)
                if report.wants((name, *found.signature[1:])):
                    report.add((name, *found.signature[1:]), items, found, seed, proto)
                    print(f"   {name}: {line(found.args)[:150]}", flush=True)
            generator.dampen(name)
        seed += 1
    seconds = time.monotonic() - begin
    report.print()
    print(f"\n{seed - first} sequences, {command_count} commands in {seconds:.0f} s, "
          f"{sum(report.counts.values())} mismatches of {len(report.counts)} commands, "
          f"first seed {first}, server: {args.terraced}")
    return 1 if report.counts else 0


if __name__ == "__main__":
    sys.exit(main())
