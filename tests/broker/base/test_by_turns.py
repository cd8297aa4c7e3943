"""Long work, a little of it in each turn of the loop."""

import asyncio

import pytest

from counterpoise.broker.base.by_turns import OnePerTurn, WorkBudget


async def turns_while(work: asyncio.Future[object]) -> int:
    for turns in range(10_000):
        if work.done():
            return turns
        await asyncio.sleep(0)
    raise AssertionError("it never ends")


@pytest.mark.parametrize(("work", "most", "least"), [(1, 10, 10), (5, 10, 50), (30, 10, 100)])
async def test_others_have_their_turn_whenever_enough_was_done(
    work: int, most: int, least: int
) -> None:
    async def hundred() -> None:
        turns = WorkBudget(most)
        for _ in range(100):
            await turns.did(work)

    assert least <= await turns_while(asyncio.ensure_future(hundred())) <= least + 2


async def test_one_begins_in_each_turn_in_the_order_of_asking() -> None:
    turns, begun = OnePerTurn(), list[int]()

    async def one(number: int) -> None:
        await turns.mine()
        begun.append(number)

    everybody = asyncio.gather(*(one(number) for number in range(50)))
    while not everybody.done():
        before = len(begun)
        await asyncio.sleep(0)
        assert len(begun) - before <= 1
    assert begun == list(range(50))
