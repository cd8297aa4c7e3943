"""What a micro-batch does, without Spark: files in, a shard's state out, whatever is compacted."""

from pathlib import Path

import numpy as np
import pytest

from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.pipeline.history import keeping
from counterpoise.pipeline.history.keeping import Keeping, KeepingOptions
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import is_archive, span
from counterpoise.pipeline.history.reports import land
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.stream.fold import FoldSource
from counterpoise.pipeline.stream.states import read_state, state_name
from tests.load.story import START, joined, poll
from tests.load.test_fold import assert_same
from tests.pipeline.fake_cluster import bundle_name

EVERY = 5000
SHARDS = 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def at(number: int) -> int:
    return START + EVERY * number


def loads(number: int) -> dict[str, float]:
    return {bundle_name(index): 1.0 + (number * number * 7 + index) % 997 for index in range(4)}


def lands(store: Store, numbers: range) -> None:
    for number in numbers:
        land(store, poll(number, {"b1:80": loads(number)}))


def folds(store: Store, after: int, up_to: int) -> FoldState:
    """A micro-batch, as Spark has it planned and read."""
    options = {"history": store.uri, "after": "0", "files": "500", "every": "0", "fold": "{}"}
    reader = FoldSource({**options, "shards": str(SHARDS)}).streamReader(None)
    for part in reader.partitions({"poll": after}, {"poll": up_to}):
        assert [row[1] for row in reader.read(part)] == [up_to]
    return merged([read_state(store, state_name(up_to, s, SHARDS)) for s in range(SHARDS)])


def expected(count: int) -> FoldState:
    polls = [poll(number, {"b1:80": loads(number)}) for number in range(count)]
    return merged([fold(FoldState.empty(), Batch.of(joined(polls)))])


def test_averages_over_more_than_a_hundred_samples_survive_every_state(store: Store) -> None:
    """By a scalar twin of Java's formula: limits of 10 and 1000."""
    after, count = 0, 130
    for first in range(0, count, 26):
        lands(store, range(first, first + 26))
        state = folds(store, after, at(first + 25))
        after = at(first + 25)
    for index in range(4):
        [row] = np.flatnonzero(state.averages["bundle"] == bundle_name(index))
        for term, limit in (("short", 10), ("long", 1000)):
            value = 0.0
            for number in range(count):
                n = min(number + 1, limit)
                value = ((n - 1) * value + loads(number)[bundle_name(index)]) / n
            assert state.averages[f"{term}_samples"][row] == min(count, limit)
            assert state.averages[f"{term}_msg_throughput_in"][row] == value


def test_what_is_not_folded_yet_is_never_compacted(store: Store) -> None:
    """More lands while the history is kept tidy: the next micro-batch finds each poll once."""
    lands(store, range(3))
    folds(store, 0, at(2))
    lands(store, range(3, 6))
    keeps = Keeping(store, KeepingOptions(compact_from=1, look_every=1), print)
    keeps.folded(at(2))
    keeps._thread.shutdown(wait=True)
    assert [(is_archive(name), span(name)) for name in files(store, "reports")] == [
        (True, (at(0), at(2))),
        (False, (at(3), at(3))),
        (False, (at(4), at(4))),
        (False, (at(5), at(5))),
    ]
    assert_same(folds(store, at(2), at(4)), expected(5))
    assert_same(folds(store, at(4), at(5)), expected(6))


def test_a_micro_batch_that_is_repeated_after_a_compaction_gives_the_same(store: Store) -> None:
    """What became of a state that was lost: the batch is planned again, over compacted files."""
    lands(store, range(4))
    folds(store, 0, at(1))
    first = folds(store, at(1), at(3))
    keeps = Keeping(store, KeepingOptions(compact_from=1, look_every=1), print)
    keeps.folded(at(3))
    keeps._thread.shutdown(wait=True)
    assert all(is_archive(name) for name in files(store, "reports"))
    assert_same(folds(store, at(1), at(3)), first)


def test_a_history_is_looked_over_every_so_many_micro_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str, int, int, int]] = []

    def compact(_: Store, table: str, *, up_to_poll: int, at_least: int, keep: int) -> int:
        looked.append((table, up_to_poll, at_least, keep))
        return 0

    monkeypatch.setattr(keeping, "compact", compact)
    keeps = Keeping(store, KeepingOptions(compact_from=5, look_every=3, rounds_at_hand=7), print)
    for number in range(1, 6):
        keeps.folded(number)
        assert bool(looked) <= (number >= 3)
    keeps._thread.shutdown(wait=True)
    assert [(table, poll_id) for table, poll_id, _, _ in looked] == [
        (table, 3)
        for table in (
            "reports",
            "ownership",
            "rounds",
            "decisions",
            "rejections",
            "outcomes",
            "memory",
        )
    ]
    assert {at_least for _, _, at_least, _ in looked} == {5}
    assert [keep for _, _, _, keep in looked] == [0, 7, 7, 7, 7, 7, 7]
