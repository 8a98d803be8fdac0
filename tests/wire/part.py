# SPDX-License-Identifier: Apache-2.0
"""What the tests of PART.* share: a client that gives records as dicts."""
import json

import redis


class Job:
    def __init__(self, server, name="j", **options):
        self.name = name
        self.client = server.client(decode_responses=True, socket_timeout=100, **options)

    def call(self, command, *args):
        return self.client.execute_command(f"PART.{command}", self.name, *args)

    def error(self, command, *args):
        try:
            got = self.call(command, *args)
        except redis.ResponseError as error:
            return str(error)
        raise AssertionError(f"{command} {args} answered {got}")

    def claim(self, worker, *args):
        return [json.loads(text) for text in self.call("CLAIM", worker, *args)]

    def get(self, partition):
        text = self.call("GET", partition)
        return json.loads(text) if text is not None else None

    def page(self, *args):
        cursor, texts = self.call("LIST", *args)
        return int(cursor), [json.loads(text) for text in texts]

    def list(self, *args, count=100):
        """All pages."""
        cursor, records = self.page(*args, "COUNT", count)
        while cursor:
            cursor, more = self.page(*args, "COUNT", count, "CURSOR", cursor)
            records += more
        return records

    def ids(self, *args, **options):
        return [record["partition_id"] for record in self.list(*args, **options)]

    def stats(self, *args):
        return pairs(self.call("STATS", *args))

    def rows(self, kind):
        return {name: pairs(row) for name, row in pairs(self.call("STATS", kind)).items()}

    def key(self, suffix):
        return f"elk:{{{self.name}}}:{suffix}"

    def states(self):
        stats = self.stats()
        return [stats[state] for state in ("pending", "claimed", "running", "failed", "completed")]

    def finish(self, worker, count, *args):
        """Claims, starts and completes; returns the ids."""
        ids = [record["partition_id"] for record in self.claim(worker, "COUNT", count)]
        pipe = self.client.pipeline(transaction=False)
        for partition in ids:
            pipe.execute_command("PART.START", self.name, worker, partition)
            pipe.execute_command("PART.DONE", self.name, worker, partition, *args)
        assert all(pipe.execute())
        return ids


def pairs(flat):
    if isinstance(flat, dict):
        return flat
    return dict(zip(flat[::2], flat[1::2]))
