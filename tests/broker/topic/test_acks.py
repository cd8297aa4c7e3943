"""Acknowledgement arithmetic against a twin that keeps a plain set."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterpoise.broker.topic.acks import AckState


class DumbAcks:
    """The same promises, kept the slow way."""

    def __init__(self) -> None:
        self.acked: set[int] = set()

    @property
    def mark(self) -> int:
        index = 0
        while index in self.acked:
            index += 1
        return index - 1

    def ranges(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        mark = self.mark
        for index in sorted(i for i in self.acked if i > mark):
            if found and found[-1][1] == index - 1:
                found[-1] = (found[-1][0], index)
            else:
                found.append((index, index))
        return found


indexes = st.one_of(st.integers(0, 40), st.integers(500, 530), st.integers(1000, 1600))


@settings(deadline=None, max_examples=60)
@example([(False, index) for index in (512, 511, 1024, 1023, 1025)])
@given(st.lists(st.tuples(st.booleans(), indexes), max_size=40))
def test_acks_agree_with_a_plain_set(steps: list[tuple[bool, int]]) -> None:
    state, twin = AckState(-1), DumbAcks()
    for through, index in steps:
        before = set(twin.acked)
        if through:
            twin.acked |= set(range(index + 1))
            assert state.ack_through(index) == len(twin.acked - before)
        else:
            twin.acked.add(index)
            assert state.ack(index) is (index not in before)
        mark = twin.mark
        assert state.mark == mark
        assert state.above == len([i for i in twin.acked if i > mark])
        assert list(state.ranges()) == twin.ranges()
        assert state.range_count() == len(twin.ranges())
        assert state.backlog(2000) == 2000 - len(twin.acked)
        assert state.backlog(0) == 0
        for probe in (0, index, index + 1, 511, 512, 1024):
            assert state.is_acked(probe) is (probe in twin.acked)


@settings(deadline=None)
@given(st.sets(st.integers(0, 1500), max_size=200), st.integers(-1, 1600))
def test_a_saved_state_is_restored(acked: set[int], mark: int) -> None:
    state = AckState(mark)
    for index in acked:
        state.ack(index)
    again = AckState(state.mark, state.ranges())
    assert (again.mark, again.above, list(again.ranges())) == (
        state.mark,
        state.above,
        list(state.ranges()),
    )


@pytest.mark.parametrize("order", [range(5000), reversed(range(5000))])
def test_every_order_ends_with_nothing_left(order: range) -> None:
    state = AckState(-1)
    for index in order:
        state.ack(index)
    assert (state.mark, state.above, list(state.ranges())) == (4999, 0, [])


@given(st.lists(st.sets(st.integers(0, 150)), max_size=6))
def test_what_is_left_of_a_batch_is_what_no_acknowledgement_named(acked: list[set[int]]) -> None:
    state, left = AckState(-1), set(range(151))
    for each in acked:
        unnamed = sum(1 << number for number in range(151) if number not in each)
        left -= each
        words = [unnamed >> (64 * at) & (2**64 - 1) for at in range(3)]
        assert state.ack_part(5, words) == len(left)
        found = state.ack_set(5)
        assert {
            n for n in range(151) if n // 64 < len(found) and found[n // 64] >> n % 64 & 1
        } == left
    state.ack(5)
    assert state.ack_set(5) == []


@pytest.mark.parametrize("way", ["ack", "ack_through", "ack_range", "reset"])
def test_of_a_batch_that_is_acknowledged_as_a_whole_no_part_is_kept(way: str) -> None:
    state = AckState(-1)
    for index in (3, 5):
        assert state.ack_part(index, [0b101]) == 2
    if way == "ack":
        state.ack(5)
    elif way == "ack_through":
        state.ack_through(5)
    elif way == "ack_range":
        state.ack_range(0, 5)
    else:
        state.reset(-1)
    assert state.ack_set(5) == []
    assert list(state.ack_set(3)) == ([0b101] if way == "ack" else [])
    assert list(state.partial) == ([3] if way == "ack" else [])


def test_a_saved_range_is_restored_at_once() -> None:
    """One by one, five millions behind one that is stuck take a second, in which none is served."""
    end = 10**12
    state = AckState(-1, [(0, end), (end + 2, end + 10**7)])
    assert (state.mark, state.above) == (end, 10**7 - 1)
    assert list(state.ranges()) == [(end + 2, end + 10**7)]


def test_words_that_fill_a_frame_are_taken_at_once() -> None:
    """Each shifted to its place they take minutes, in which the broker serves no other client."""
    state, words = AckState(-1), [2**64 - 1] * 600_000
    assert state.ack_part(5, words) == 64 * len(words)
    assert state.ack_set(5) == words
