"""`RateLimiter` on an event loop whose time jumps to the next timer: exact, and over at once."""

import asyncio

import pytest

from counterpoise.quota import SECOND_NS, RateLimiter
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time


@on_jumping_loop
async def test_so_many_pass_in_a_second_and_no_more() -> None:
    limiter = RateLimiter(100, burst=1, clock=now_ns)
    passed: list[int] = []

    async def one() -> None:
        async with limiter:
            passed.append(now_ns())

    await asyncio.gather(*(one() for _ in range(1001)))
    # The first one is free, each other takes a hundredth of a second.
    assert abs(passed[-1] - 10 * SECOND_NS) < SECOND_NS // 100
    for first, last in zip(passed, passed[100:], strict=False):
        assert last - first > 0.99 * SECOND_NS - 1


@on_jumping_loop
async def test_first_come_first_served_whatever_they_ask_for() -> None:
    limiter = RateLimiter(10, burst=1, clock=now_ns)
    order: list[int] = []

    async def ask(number: int, n: int) -> None:
        await limiter.acquire(n)
        order.append(number)

    await asyncio.gather(*(ask(number, 1 + number % 3) for number in range(20)))
    assert order == list(range(20))
    assert not limiter.try_acquire(), "the debt of the last one is not paid"


@on_jumping_loop
async def test_thousands_wait_on_one_timer() -> None:
    limiter = RateLimiter(100_000, burst=1, clock=now_ns)
    loop = asyncio.get_running_loop()
    tasks = [asyncio.ensure_future(limiter.acquire()) for _ in range(5000)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert limiter.waiting > 4000
    assert loop.timers_of("RateLimiter._release") == 1
    await asyncio.gather(*tasks)


@on_jumping_loop
async def test_who_is_cancelled_loses_its_place_and_nothing_else() -> None:
    limiter = RateLimiter(10, burst=1, clock=now_ns)
    await limiter.acquire()
    tasks = [asyncio.ensure_future(limiter.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    assert limiter.waiting == 2
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert limiter.waiting == 0
    assert now_ns() < 0.25 * SECOND_NS, "the one that was cancelled has cost nothing"


@on_jumping_loop
async def test_cancelled_when_its_turn_has_just_come() -> None:
    limiter = RateLimiter(10, burst=1, clock=now_ns)
    await limiter.acquire()
    first = asyncio.ensure_future(limiter.acquire())
    second = asyncio.ensure_future(limiter.acquire())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    loop.jumping.now_ns += SECOND_NS // 10
    # The timer fires after this task in one turn, and before `first` in the next.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert limiter.waiting == 1
    first.cancel()
    done = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert now_ns() < 0.15 * SECOND_NS, "the turn went to the next one, at once"


@on_jumping_loop
async def test_a_raised_rate_wakes_those_who_wait() -> None:
    limiter = RateLimiter(1, per_s=3600, clock=now_ns)
    await limiter.acquire()
    waiting = asyncio.ensure_future(limiter.acquire())
    await pass_time(1)
    assert not waiting.done()
    limiter.set_rate(1000)
    await waiting
    assert now_ns() < 2 * SECOND_NS


@on_jumping_loop
async def test_a_changed_rate_has_a_burst_of_its_own() -> None:
    limiter = RateLimiter(10, burst=1, clock=now_ns)
    for burst, at_once in ((3, 3), (1, 1), (None, 10)):
        limiter.set_rate(10, burst=burst)
        await pass_time(100)
        assert [limiter.try_acquire() for _ in range(at_once + 1)] == [True] * at_once + [False]


def test_nothing_negative_can_be_acquired() -> None:
    with pytest.raises(ValueError, match="-1"):
        RateLimiter(1).try_acquire(-1)


@on_jumping_loop
async def test_a_task_that_waits_is_not_overtaken_when_a_token_comes() -> None:
    limiter = RateLimiter(10, burst=1, clock=now_ns)
    assert limiter.try_acquire()
    tried: list[bool] = []
    # At the moment of the next token, and before the timer of the task that waits.
    asyncio.get_running_loop().call_later(0.1, lambda: tried.append(limiter.try_acquire()))
    await asyncio.wait_for(limiter.acquire(), 1)
    assert now_ns() == SECOND_NS // 10
    await pass_time(0.001)
    assert tried == [False]
