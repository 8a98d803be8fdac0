"""Partitions against hostile clients, damaged bytes and restarts at bad moments."""
import pytest

from part import Job

MIB = 1024 * 1024


@pytest.fixture
def job(start):
    return Job(start("--part-batch", "20", "--part-simple-max", "100"))


# ---- much at once ----

@pytest.mark.parametrize("packed", (False, True))
def test_pages_of_long_records_are_cut_by_their_bytes(job, packed):
    options = '"' + "x" * (MIB - 2) + '"'
    for partition in range(1, 41):
        job.call("ADD", partition, partition, partition, "OPTIONS", options)
        job.claim("w", "ID", partition)
        job.call("DONE", "w", partition)
    if packed:
        job.call("ARCHIVE", "COMPACT")
    cursor, seen, pages = 0, [], 0
    while pages == 0 or cursor:
        cursor, records = job.page("ARCHIVED", "COUNT", 10000, "CURSOR", cursor)
        assert sum(len(record["options"]) for record in records) < 18 * MIB
        seen += [record["partition_id"] for record in records]
        pages += 1
    assert seen == list(range(1, 41)) and pages >= 3
