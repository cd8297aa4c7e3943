"""The tables on S3: conditional writes keep writers apart; a store without them is refused."""

import pytest

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.tables.check import check, repair
from counterpoise.pipeline.tables.faults import HistoryFaultError, SupersededError
from counterpoise.pipeline.tables.heartbeat import writing
from counterpoise.pipeline.tables.history import TablesReader, take_over
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land, next_slice, read_shard
from counterpoise.pipeline.tables.schema import REPORTS
from tests.load.story import poll
from tests.pipeline.s3_server import Bucket, own_path
from tests.pipeline.tables.test_history import landed_polls

LOADS = {"a:1": {"t/n/0x0_0x1": 1.0}}


@pytest.fixture
def uri(s3: Bucket, request: pytest.FixtureRequest) -> str:
    return s3.uri(own_path(request.node.name))


async def test_a_history_is_begun_written_and_read(uri: str) -> None:
    location = open_location(uri)
    async with writing(location) as writer:
        land(writer, poll(1, LOADS))
        JournalWriter(writer).record_memory(1, RoundMemory())
    reader = TablesReader(location)
    assert len(landed_polls(reader)) == 1
    part = next_slice(reader, 0)
    assert part is not None
    assert read_shard(location, part, 0, 1).samples["bundle"].tolist() == ["t/n/0x0_0x1"]
    assert "secret" not in location.address


def test_an_earlier_writer_is_refused_and_stays_so(uri: str) -> None:
    location = open_location(uri)
    first = take_over(location)
    land(first, poll(1, LOADS))
    second = take_over(location)
    for _ in range(2):
        with pytest.raises(SupersededError):
            land(first, poll(2, LOADS))
    land(second, poll(2, LOADS))
    assert len(landed_polls(TablesReader(location))) == 2


async def test_a_store_that_ignores_conditions_is_refused(s3: Bucket, uri: str) -> None:
    s3.ignores_conditions = True
    try:
        with pytest.raises(HistoryFaultError, match=r"If-None-Match.*use a store that honours it"):
            async with writing(open_location(uri)):
                pass
    finally:
        s3.ignores_conditions = False
    path = uri.partition("?")[0].rpartition("/")[2]
    assert [name for name in s3.objects if name.startswith(f"{path}/")] in ([], [f"{path}/"])
    async with writing(open_location(uri)) as writer:
        assert writer.epoch == 1
    assert not [name for name in s3.objects if "/probe-" in name]


def test_a_refusal_of_the_store_is_a_sentence(s3: Bucket, uri: str) -> None:
    writer = take_over(open_location(uri))
    s3.refuse = "day="
    try:
        with pytest.raises(HistoryFaultError, match=r"s3://bucket/.*cannot be written"):
            land(writer, poll(1, LOADS))
    finally:
        s3.refuse = ""


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_damaged_file_is_set_aside(uri: str, s3: Bucket, damage: str) -> None:
    writer = take_over(open_location(uri))
    for number in (1, 2):
        land(writer, poll(number, LOADS))
    file = writer.files(REPORTS)[0]
    if damage == "removed":
        writer.location.filesystem.delete_file(writer.location.path(file.name))
    else:
        key = writer.location.path(file.name).partition("/")[2]
        s3.write(key, s3.read(key)[:-20])
    found = repair(writer, file.last_poll + 60_000)
    assert [each.name for each in found.damaged] == [file.name]
    assert check(TablesReader(writer.location), file.last_poll + 60_000).is_whole
    assert len(landed_polls(TablesReader(writer.location))) == 1
    aside = [
        name for name in s3.objects if f"/damaged/{REPORTS}/day=" in name and "parquet" in name
    ]
    assert len(aside) == (damage == "cut")
