"""What many ask for at once is found once for all who asked before it was begun."""

import asyncio
import gc
import weakref

import pytest

from counterpoise.broker.base.by_turns import PIECE, in_pieces
from counterpoise.broker.base.single_flight import SingleFlight
from tests.waiting import turns


class Answer(str):
    """A text that shows whether it is still kept."""

    __slots__ = ("__weakref__",)


class Slow:
    """Finds one number after the other, each when it is let."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()
        self.fails: set[int] = set()

    async def __call__(self, key: str) -> str:
        self.begun += 1
        number = self.begun
        await self.go_on.wait()
        if number in self.fails:
            raise OSError(f"{number} failed")
        return Answer(f"{key}{number}")


async def test_all_who_ask_meanwhile_share_the_next_answer() -> None:
    slow = Slow()
    ask = SingleFlight(slow)
    first = asyncio.ensure_future(ask("a"))
    await turns()
    later = [asyncio.ensure_future(ask("a")) for _ in range(100)]
    other = asyncio.ensure_future(ask("b"))
    await turns()
    assert slow.begun == 2, "one for each key"
    slow.go_on.set()
    assert await first == "a1"
    assert set(await asyncio.gather(*later)) == {"a3"}, "what was begun before is no answer"
    assert await other == "b2"


async def test_a_failure_is_shared_by_the_callers_that_waited_and_by_none_after() -> None:
    slow = Slow()
    slow.fails = {1, 2}
    ask = SingleFlight(slow)
    first = asyncio.ensure_future(ask("a"))
    await turns()
    later = [asyncio.ensure_future(ask("a")) for _ in range(10)]
    await turns()
    slow.go_on.set()
    with pytest.raises(OSError, match="1 failed"):
        await first
    answers = await asyncio.gather(*later, return_exceptions=True)
    assert {str(each) for each in answers} == {"2 failed"}
    assert slow.begun == 2
    assert await ask("a") == "a3"


async def test_a_caller_that_is_cancelled_cancels_no_other() -> None:
    slow = Slow()
    ask = SingleFlight(slow)
    first, second, third = (asyncio.ensure_future(ask("a")) for _ in range(3))
    await turns()
    first.cancel()
    second.cancel()
    await turns()
    slow.go_on.set()
    answer = weakref.ref(await third)
    del first, second, third
    await turns()  # this one was begun with what it waited for
    gc.collect()
    assert answer() is None, "nothing is kept"


async def test_between_two_pieces_others_have_their_turn() -> None:
    seen: list[int] = []

    async def others() -> None:
        while len(seen) < 3 * PIECE:
            seen.append(0)
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    async for some in in_pieces(range(1, 3 * PIECE + 1)):
        seen += some
    beside.cancel()
    assert [each for each in seen if each] == list(range(1, 3 * PIECE + 1))
    assert 0 in seen[PIECE : PIECE + 2]
    assert 0 in seen[2 * PIECE : 2 * PIECE + 3]
