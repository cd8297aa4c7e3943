"""The entry cache: bounded over all logs, oldest first, never wrong."""

import gc
import weakref

from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.storage.cache import EntryCache, LogCache
from counterpoise.storage.port import EntryGroup


def group(first: int, count: int, ledger: int = 0) -> EntryGroup[None]:
    made: EntryGroup[None] = EntryGroup()
    made.entries = [b"%08d" % n for n in range(first, first + count)]
    made.messages = [1] * count
    made.first, made.ledger_id, made.size = first, ledger, 8 * count
    return made


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 90), st.booleans()), max_size=60),
    st.integers(1, 40_000),
)
def test_what_is_found_is_right_and_memory_is_bounded(
    steps: list[tuple[int, int, bool]], budget: int
) -> None:
    cache = EntryCache(budget)
    logs = [LogCache(cache) for _ in range(3)]
    ends, ledgers = [0, 0, 0], [0, 0, 0]
    for which, count, rolls in steps:
        ledgers[which] += rolls
        logs[which].add(group(ends[which], count, ledgers[which]))
        ends[which] += count
        newest = logs[which].at(ends[which] - 1)
        assert newest is not None
        for log, end in zip(logs, ends, strict=True):
            assert log.at(end) is None
            missing = True
            for index in range(end):
                chunk = log.at(index)
                assert chunk is not None or missing, "a gap between cached entries"
                if chunk is not None:
                    missing = False
                    assert chunk.entries[index - chunk.first] == b"%08d" % index
        # One chunk may exceed the budget on its own: at least the newest is always kept.
        assert cache.size <= budget + 128 * (8 + 120 + 90)
        assert cache.size == sum(log.size for log in logs)


def test_a_closed_log_gives_its_memory_back() -> None:
    cache = EntryCache(5_000)
    first, second = LogCache(cache), LogCache(cache)
    first.add(group(0, 20))
    second.add(group(0, 5))
    for _ in range(2):
        first.close()
        assert cache.size == second.size
    for n in range(1, 40):
        second.add(group(5 * n, 5, n))
    assert cache.size == second.size <= 5_000
    assert second.at(199) is not None


def test_a_log_on_its_own_fills_the_budget_and_keeps_to_it() -> None:
    """Small groups go into chunks that stay small, so that the oldest can be dropped."""
    cache = EntryCache(1 << 20)
    log = LogCache(cache)
    log.add(group(0, 64))
    budget = 3 * cache.size
    cache = EntryCache(budget)
    log = LogCache(cache)
    for n in range(2 * 8):
        log.add(group(8 * n, 8))
    log.add(group(2 * 64, 64))
    assert (cache.size, log.at(0) is None) == (budget, False)
    log.add(group(3 * 64, 8))
    assert log.at(0) is None
    assert log.at(64) is not None


class Watched(list[bytes]):
    """A list that notes when the last reference to it is gone."""


class WatchedLog(LogCache):
    """Its budget knows of its chunks until they are evicted; the budget may never be used up."""

    __slots__ = ("__weakref__",)


def test_of_logs_that_were_closed_few_are_remembered() -> None:
    cache = EntryCache(1 << 20)
    open_log, seen = LogCache(cache), weakref.WeakSet[WatchedLog]()
    open_log.add(group(0, 1))
    for _ in range(50):
        seen.add(log := WatchedLog(cache))
        log.add(group(0, 1))
        log.close()
    assert len(seen) < 5
    assert cache.size == open_log.size
    assert open_log.at(0) is not None


def test_nothing_keeps_what_was_evicted_or_closed() -> None:
    """Of each of very many topics the last entries would stay, beyond what the cache may take."""
    cache = EntryCache(5_000)
    first, second = LogCache(cache), LogCache(cache)
    for drop in (lambda: second.add(group(100, 60)), first.close):
        held = group(0, 20)
        held.entries = entries = Watched(held.entries)
        gone = weakref.ref(entries)
        first.add(held)
        del held, entries
        assert first.at(19) is not None
        drop()
        gc.collect()
        assert gone() is None
        assert first.at(19) is None


def test_a_chunk_has_entries_of_one_ledger() -> None:
    """Readers count the positions of all of its entries from that of the first."""
    log = LogCache(EntryCache(50_000))
    for number, ledger in enumerate((0, 0, 1, 1, 1, 2)):
        log.add(group(2 * number, 2, ledger))
    found = [(log.at(index).first, len(log.at(index).entries)) for index in (0, 3, 4, 9, 10)]
    assert found == [(0, 4), (0, 4), (4, 6), (4, 6), (10, 2)]


def test_a_chunk_that_was_read_may_grow_at_its_end_only() -> None:
    log = LogCache(EntryCache(5_000))
    log.add(group(0, 2))
    read = log.at(1)
    log.add(group(2, 3))
    assert [read.entries[at] for at in (0, 1)] == [b"%08d" % at for at in (0, 1)]
    assert len(read.entries) == len(read.messages) == 5
    assert log.at(4) == read
