"""Waiting for what is to become of a bundle: until it is so, or for a time."""

import asyncio

import pytest

from counterpoise.broker.bundles.waiters import BundleWaiters
from counterpoise.names.bundle import BundleName
from counterpoise.quota import SECOND_NS
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

BUNDLE = BundleName.parse("t/n/0x00000000_0x80000000")
OTHER = BundleName.parse("t/n/0x80000000_0xffffffff")


class Wish:
    """A condition of which a test says whether it holds; asked without end, it fails."""

    def __init__(self) -> None:
        self.holds = False
        self.asked = 0

    async def __call__(self) -> bool:
        self.asked += 1
        assert self.asked < 20
        holds = self.holds
        await asyncio.sleep(0)
        return holds


@on_jumping_loop
async def test_it_is_asked_at_first_when_something_happens_and_when_the_time_is_over() -> None:
    waiters, wish = BundleWaiters(), Wish()
    began = now_ns()
    waiting = asyncio.ensure_future(waiters.until(BUNDLE, wish, 5))
    await pass_time(1)
    waiters.wake(OTHER)
    await pass_time(1)
    assert wish.asked == 1
    waiters.wake(BUNDLE)
    await pass_time(1)
    assert wish.asked == 2
    assert await waiting is False
    assert (wish.asked, now_ns() - began) == (3, 5 * SECOND_NS)
    wish.holds = True
    assert await waiters.until(BUNDLE, wish, 0) is True


@pytest.mark.parametrize("cancelled", [False, True])
@on_jumping_loop
async def test_all_that_wait_go_on_at_once(cancelled: bool) -> None:
    waiters, wishes = BundleWaiters(), [Wish(), Wish()]
    waiting = [asyncio.ensure_future(waiters.until(BUNDLE, wish, 50)) for wish in wishes]
    await pass_time(1)
    if cancelled:
        waiting.pop(0).cancel()
        await pass_time(1)
    began = now_ns()
    for wish in wishes:
        wish.holds = True
    waiters.wake(BUNDLE)
    assert await asyncio.gather(*waiting) == [True] * len(waiting)
    assert now_ns() == began


@on_jumping_loop
async def test_what_happens_while_it_is_asked_has_it_asked_again() -> None:
    waiters, wish = BundleWaiters(), Wish()
    waiting = asyncio.ensure_future(waiters.until(BUNDLE, wish, 50))
    await asyncio.sleep(0)
    began, wish.holds = now_ns(), True
    waiters.wake(BUNDLE)
    assert await waiting is True
    assert (wish.asked, now_ns()) == (2, began)
