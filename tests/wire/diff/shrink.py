# SPDX-License-Identifier: Apache-2.0
"""Makes a failing sequence small."""
import time

SHRINK_SECONDS = 4.0


def shrink(play, items, found, seconds=SHRINK_SECONDS):
    """play(items) gives a Mismatch or None. Returns the smallest items found and their mismatch."""
    if found.theirs is None:  # every trial starts a server
        seconds *= 5
    end = time.monotonic() + seconds
    died = found.theirs is None  # a pipeline hides which command it was
    wanted = None if died or found.note.startswith("final") else found.name

    def still(candidate):
        if time.monotonic() > end:
            return None
        result = play(candidate)
        if result is None:
            return None
        if died or result.theirs is None:
            return result if died and result.theirs is None else None
        if wanted is None:
            return result if result.note.startswith("final") else None
        return result if result.name == wanted else None

    best = found
    if wanted is not None:
        items = items[:found.index + 1]
    result = still(items)
    if result is None:
        return items, best  # it depends on more than the sequence
    best = result
    size = max(1, len(items) // 2)
    while True:
        removed = False
        at = len(items) - size
        while at >= 0 or at > -size:
            low = max(at, 0)
            candidate = items[:low] + items[low + size:]
            result = still(candidate) if candidate and len(candidate) < len(items) else None
            if result is not None:
                items, best, removed = candidate, result, True
            at -= size
        if time.monotonic() > end or (size == 1 and not removed):
            break
        if size > 1:
            size //= 2
    return shrink_args(items, best, still, end)


def shrink_args(items, best, still, end):
    for i in range(len(items)):
        for smaller in simpler:
            for args in smaller(items[i][1]):
                if time.monotonic() > end:
                    return items, best
                candidate = items[:i] + [(items[i][0], args)] + items[i + 1:]
                result = still(candidate)
                if result is not None:
                    items, best = candidate, result
                    break
    return items, best


def fewer(args):
    """Half of a long tail, then two or one argument less, anywhere."""
    size = len(args)
    while size > 8:
        size = max(4, size // 2)
        if size % 2 == len(args) % 2:
            yield args[:size]
        else:
            yield args[:size + 1]
    for step in (2, 1):
        for at in range(len(args) - step, 0, -1):
            yield args[:at] + args[at + step:]


def shorter(args):
    for at in range(len(args) - 1, 0, -1):
        if len(args[at]) > 20:
            for keep in (1, 5000, 64):
                if keep < len(args[at]):
                    yield args[:at] + (args[at][:keep],) + args[at + 1:]


def plainer(args):
    for at in range(len(args) - 1, 0, -1):
        for plain in (b"a", b"1"):
            if args[at] != plain and not args[at].isalpha() and len(args[at]) > 2:
                yield args[:at] + (plain,) + args[at + 1:]


simpler = (fewer, fewer, fewer, shorter, plainer)
