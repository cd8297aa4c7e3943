"""What all connections together hold back for publish limits."""

from counterpoise.broker.connection.throttled import ThrottledMemory, ThrottledPublishes


class Pause:
    """Whether a connection is not read."""

    def __init__(self) -> None:
        self.held = False

    def hold(self, _reason: object) -> None:
        self.held = True

    def release(self, _reason: object) -> None:
        self.held = False


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
