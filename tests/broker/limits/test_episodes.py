"""What the log says of a limit: when it is no longer reached, and which rates it has."""

import logging

import pytest

from counterpoise.broker.limits.runner import LimitEpisodes, rates_text
from counterpoise.quota import SECOND_NS, LimitLevel, RateLimit
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time


def limit_of(messages: int = 0, size: int = 0, period_s: int = 1) -> RateLimit:
    limit = RateLimit(LimitLevel.TOPIC_DISPATCH, "t")
    limit.set_rate(messages, size, 0, period_s)
    return limit


@pytest.mark.parametrize("rested_s", [1, 3, 9])
@on_jumping_loop
async def test_a_limit_is_reached_until_no_flow_has_waited_for_ten_seconds(
    rested_s: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.broker.limits")
    limit, episodes = limit_of(10), LimitEpisodes(now_ns)
    limit.throttled_count, limit.throttled_ns = 5, SECOND_NS
    episodes.began(limit, "a producer")
    limit.throttled_count, limit.throttled_ns = 8, 3 * SECOND_NS
    await pass_time(rested_s)
    limit.rested_at = now_ns()
    await pass_time(9.9)
    assert "no longer reached" not in caplog.text
    await pass_time(0.2)
    assert (
        f"no longer reached: in {rested_s}.0 s it throttled 4 times, 2.0 s altogether"
        in caplog.text
    )
    assert now_ns() == pytest.approx((rested_s + 10.1) * SECOND_NS)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (limit_of(1000), "1,000 messages/s"),
        (limit_of(5, 2_000_000), "5 messages/s, 2,000,000 bytes/s"),
        (limit_of(100, 7, period_s=10), "100 messages in 10 s, 7 bytes in 10 s"),
        (limit_of(), "no limit"),
    ],
    ids=repr,
)
def test_the_rates_of_a_limit(limit: RateLimit, text: str) -> None:
    assert rates_text(limit) == text
