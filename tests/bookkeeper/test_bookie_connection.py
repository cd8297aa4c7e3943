"""Which listener gets which responses of a bookie, when several come at once."""

import asyncio
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.bookkeeper.bookie_connection import BookieConnection
from counterpoise.bookkeeper.bookie_frames import FRAME_MAX, BookieAnswer, BookieRequest
from counterpoise.bookkeeper.errors import BookieError
from tests.quota.jumping import JumpingLoop, on_jumping_loop

ADD, OK, READ_ONLY = 1, 0, 105
LEDGER = 7


class Wire(asyncio.Transport):
    """The bookie's end, which never reads."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def writelines(self, frames: Iterable[object]) -> None:
        """Nobody looks at what was sent."""

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


@dataclass
class Listener:
    """What it was notified of; ``first`` is done at the first response."""

    answers: list[tuple[int, int]] = field(default_factory=list)
    """Entry and code."""
    failed: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    first: Callable[[], None] = lambda: None

    def answered(self, bookie: str, answers: Sequence[BookieAnswer]) -> None:
        first, self.first = self.first, lambda: None
        first()
        self.answers += [(each.entry, each.code) for each in answers]

    def unanswered(self, bookie: str, request: BookieRequest, error: BookieError) -> None:
        self.failed.append(request.entry)
        self.reasons.append(str(error))


def connected() -> BookieConnection:
    connection = BookieConnection("b1", FRAME_MAX, 30.0)
    connection.connection_made(Wire())
    return connection


def add(entry: int) -> list[BookieRequest]:
    return [BookieRequest(ADD, LEDGER, entry, b"")]


def response(entry: int, code: int = OK) -> bytes:
    return struct.pack(">iBBHiqq", 24, 2, ADD, 0, code, LEDGER, entry)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=12), st.data())
def test_each_listener_gets_the_responses_to_its_own_requests(
    sent: list[tuple[str, int]], data: st.DataObject
) -> None:
    """A bookie answers equal requests in order; others in any."""
    asked = {each: [who for who, entry in sent if entry == each] for each in range(4)}
    entries = data.draw(st.permutations([entry for _, entry in sent]))
    numbered = [(entry, code) for code, entry in enumerate(entries)]
    cut = data.draw(st.integers(0, len(numbered)))

    async def received() -> dict[str, Listener]:
        listeners = {"a": Listener(), "b": Listener()}
        connection = connected()
        for who, entry in sent:
            connection.send(add(entry), listeners[who])
        for part in (numbered[:cut], numbered[cut:]):
            connection.data_received(b"".join(response(*each) for each in part))
        connection.close("the end")
        return listeners

    listeners = asyncio.run(received())
    expected: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    for entry, code in numbered:
        expected[asked[entry].pop(0)].append((entry, code))
    assert {who: each.answers for who, each in listeners.items()} == expected
    assert not any(each.failed for each in listeners.values())


async def test_a_listener_that_closes_the_connection_notifies_each_request_once() -> None:
    connection = connected()
    one = Listener(first=lambda: connection.close("enough"))
    other = Listener()
    connection.send([*add(0), *add(1), *add(3)], one)
    connection.send(add(2), other)
    connection.data_received(b"".join(map(response, (0, 1, 2))))
    assert (one.answers, one.failed) == ([(0, OK), (1, OK)], [3])
    assert (other.answers, other.failed) == ([], [2])


async def test_what_came_before_a_response_that_nothing_asked_for_counts() -> None:
    connection = connected()
    listener = Listener()
    connection.send([*add(0), *add(1)], listener)
    connection.data_received(response(0) + response(9) + response(1))
    assert (listener.answers, listener.failed) == ([(0, OK)], [1])
    assert "nothing asked" in connection.failure
    late = Listener()
    connection.send(add(2), late)
    await asyncio.sleep(0)
    assert late.failed == [2]


async def test_a_connection_keeps_the_first_reason_for_its_end_and_knows_whether_it_served() -> (
    None
):
    connection = connected()
    connection.send(add(0), Listener())
    assert not connection.has_answered
    connection.data_received(response(0))
    assert connection.has_answered
    connection.close("it was too slow")
    connection.close("closed")
    connection.connection_lost(ConnectionResetError("reset"))
    assert connection.failure == "it was too slow"
    other = connected()
    other.connection_lost(None)
    assert other.failure == "it hung up"


@on_jumping_loop
async def test_a_connection_that_has_ended_waits_for_nothing_more() -> None:
    connection = connected()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    connection.send(add(0), Listener())
    assert loop.timers_of("BookieConnection._look") == 1
    connection.close("closed")
    assert loop.timers_of("BookieConnection._look") == 0


async def test_what_is_sent_on_a_connection_that_has_ended_fails_with_the_reason_of_its_end() -> (
    None
):
    listener = Listener()
    never, ended = BookieConnection("b1", FRAME_MAX, 30.0), connected()
    ended.close("no answer within 30 s")
    for connection in (never, ended):
        connection.send(add(1), listener)
    assert listener.failed == [], "never before the call returns"
    await asyncio.sleep(0)
    assert listener.failed == [1, 1]
    whole = "bookie b1: "
    assert [each.removeprefix(whole) for each in listener.reasons] == [
        "the connection is closed",
        "no answer within 30 s",
    ]
