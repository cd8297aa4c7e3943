"""A history in an object store: the same tables, states and faults; the lease is an object."""

from collections.abc import Iterator
from typing import BinaryIO

import pytest

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.load.fold import DEFAULT_OPTIONS, Batch, FoldState, fold, merged
from counterpoise.pipeline.history.care import check, repair
from counterpoise.pipeline.history.compaction import compact, read_table_parts
from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.tables import HistoryTables
from counterpoise.pipeline.stream.fold import Shard, fold_shard
from counterpoise.pipeline.stream.states import begin, complete, forget, read_state, state_name
from counterpoise.pipeline.tables.faults import HistoryFaultError
from tests.load.story import START, poll
from tests.load.test_fold import assert_same
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.landed import read_landed
from tests.pipeline.s3_server import Bucket, bucket, own_path

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture
def store(endpoint: Bucket, request: pytest.FixtureRequest) -> Store:
    endpoint.refuse = ""
    return open_store(endpoint.uri(f"histories/{own_path(request.node.name)}"))


def landed(store: Store, count: int) -> list[int]:
    for number in range(count):
        land(store, poll(number, {"b1:80": {bundle_name(n): 10.0 * number for n in range(5)}}))
    return [START + 5000 * number for number in range(count)]


def test_polls_are_landed_compacted_and_read_there(store: Store) -> None:
    polls = landed(store, 4)
    assert newest_poll(store) == polls[-1]
    with pytest.raises(FileExistsError):
        landed(store, 1)
    assert compact(store, "reports", up_to_poll=polls[2], at_least=1) == 3
    assert len(files(store, "reports")) == 2
    parts = read_table_parts(store, "reports")
    assert [p for part in parts for p in dict.fromkeys(part["poll_id"].to_pylist())] == polls
    assert "secret" not in store.where("x"), "whoever reads a sentence does not read the key"


def test_shards_are_folded_there_and_taken_up_again(store: Store) -> None:
    polls = landed(store, 4)
    state = FoldState.empty()
    for name in files(store, "reports"):
        state = fold(state, Batch.of(read_landed(store, name)))
    for after, up_to in ((0, polls[1]), (polls[1], polls[3])):
        behind = files(store, "reports", after=after)
        names = [name for name in behind if int(name[-23:-8]) <= up_to]
        for shard in range(2):
            fold_shard(store, Shard(shard, after, up_to, tuple(names)), 2, DEFAULT_OPTIONS)
    assert begin(store, 2) == polls[3]
    parts = [read_state(store, state_name(polls[3], shard, 2)) for shard in range(2)]
    assert_same(merged(parts), merged([state]))
    forget(store)
    assert complete(store) == [(polls[1], 2), (polls[3], 2)]


def test_rounds_are_kept_there(store: Store) -> None:
    history = HistoryTables(store)
    history.record_memory(START, RoundMemory(decided_at_ms=START))
    assert history.is_complete(START)
    assert not history.is_complete(START + 1)
    assert history.memory_before(START + 1).decided_at_ms == START
    assert history.memory_before(START).decided_at_ms == 0


def test_what_is_damaged_there_is_set_aside(store: Store, endpoint: Bucket) -> None:
    landed(store, 2)
    name = files(store, "reports")[0]
    key = store.path(name).removeprefix("bucket/")
    endpoint.write(key, endpoint.read(key)[:100])
    with pytest.raises(HistoryFaultError, match="is damaged"):
        read_landed(store, name)
    assert repair(store).damaged == (name,)
    assert check(store).damaged == ()
    assert any(key.endswith(f"damaged/{name}") for key in endpoint.objects)


def test_a_write_that_is_refused_is_a_sentence_and_leaves_nothing(
    store: Store, endpoint: Bucket
) -> None:
    endpoint.refuse = "reports"
    with pytest.raises(HistoryFaultError, match="cannot be written"):
        landed(store, 1)
    assert files(store, "reports") == []


def test_what_another_removes_while_it_is_read_is_not_there(store: Store) -> None:
    """As a record of a former reign, which whoever takes the history over removes."""
    store.write("reigns/gone.json", b"{}")

    def read_late(file: BinaryIO) -> bytes:
        store.delete("reigns/gone.json")
        return file.read()

    with pytest.raises(FileNotFoundError):
        store.read("reigns/gone.json", read_late)
