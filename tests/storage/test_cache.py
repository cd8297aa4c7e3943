"""The entry cache: bounded over all logs, oldest first, never wrong."""

from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.storage.cache import EntryCache, LogCache
from counterpoise.storage.port import Group


def group(first: int, count: int, ledger: int = 0) -> Group[None]:
    made: Group[None] = Group()
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
    first.close()
    assert cache.size == second.size
    for n in range(1, 40):
        second.add(group(5 * n, 5, n))
    assert cache.size == second.size <= 5_000
    assert second.at(199) is not None
