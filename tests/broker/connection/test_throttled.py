"""What all connections together hold back for publish limits."""

import pytest

from counterpoise.broker.connection.throttled import ThrottledMemory, ThrottledPublishes


class Pause:
    """Whether a connection is not read."""

    def __init__(self) -> None:
        self.held = False

    def hold(self, _reason: object) -> None:
        self.held = True

    def release(self, _reason: object) -> None:
        self.held = False


@pytest.mark.parametrize(("entries", "size"), [(2, 1), (0, 200)])
def test_a_connection_is_read_again_when_a_sixty_fourth_of_what_may_wait_is_free(
    entries: int, size: int
) -> None:
    """Of the 128 entries or of the 12,800 bytes, whichever there were too many of."""
    pause = Pause()
    throttled = ThrottledPublishes(pause, ThrottledMemory(0), 128, 12_800)  # type: ignore[arg-type]
    throttled.add(100, 1000)
    held = (28, 0) if entries else (1, 11_800)
    throttled.add(held[0] - 1, max(held[1] - 1, 0))
    assert not pause.held
    throttled.add(1, min(held[1], 1))
    assert pause.held
    throttled.add(-(entries // 2), -(size // 2))
    assert pause.held, "half of that part is free"
    throttled.add(-(entries - entries // 2), -(size - size // 2))
    assert pause.held
    throttled.add(-1, -1)
    assert not pause.held


def test_the_memory_is_what_all_of_them_hold() -> None:
    memory = ThrottledMemory(limit=1000)
    pauses = [Pause(), Pause()]
    one, other = (ThrottledPublishes(pause, memory, 100, 10_000) for pause in pauses)  # type: ignore[arg-type]
    one.add(1, 600)
    assert (memory.size, memory.full) == (600, False)
    other.add(1, 400)
    assert (memory.size, memory.full) == (1000, True)
    assert [pause.held for pause in pauses] == [False, True], "a client that adds to it waits"
    one.add(1, 400)
    other.add(-1, -400)
    assert (memory.size, memory.full) == (1000, True)
    assert [pause.held for pause in pauses] == [True, False], "one that has none of it goes on"
    one.add(-2, -1000)
    assert memory.size == 0
    assert [pause.held for pause in pauses] == [False, False]
