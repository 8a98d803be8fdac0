# SPDX-License-Identifier: Apache-2.0
"""Directories for servers, and ports for those that have to be told theirs or are started again on the same one.

The system gives outgoing connections a port of ip_local_port_range at any moment: one from there may be gone before it is
bound, and between two starts of a server. These are from below that range, and a lock that goes with this process keeps
other tests from the same one.
"""
import fcntl
import itertools
import os
import pathlib
import socket
import tempfile

PORT_FIRST = 10000
LOCKS = []  # open files; closed, and so released, at the end of the process


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    last = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert last > PORT_FIRST, "there are no ports below those of outgoing connections"
    directory = pathlib.Path(tempfile.gettempdir()) / f"terrace-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    for n in itertools.count(os.getpid() * 37):  # not all begin with the same one
        port = PORT_FIRST + n % (last - PORT_FIRST)
        lock = open(directory / str(port), "wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        LOCKS.append(lock)
        if is_free(port):
            return port


def new_directory(prefix):
    """Below the one that tools/run_tests.py has made for this test, if it runs it."""
    return tempfile.mkdtemp(prefix=prefix, dir=os.environ.get("TERRACE_TEST_DIR"))
