# SPDX-License-Identifier: Apache-2.0
"""How tests wait: for a condition, never for a time.

Whatever has to come has LIMIT_SECONDS for it, however busy the machine is: only what hangs takes longer. Where a library
takes a time, it is the same number.
"""
import time

LIMIT_SECONDS = 100


def wait_until(holds, seconds=LIMIT_SECONDS):
    """Asks again and again until the answer is true, and returns it; what never becomes true fails."""
    end = time.monotonic() + seconds
    while True:
        got = holds()
        if got:
            return got
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


def wait_for_time(unix_ms):
    """Until a deadline that the server knows is over, by the clock of both."""
    wait_until(lambda: time.time() * 1000 > unix_ms)
