"""Every storm in short, over one broker, and the judge that only storms have."""

import asyncio
from pathlib import Path

from tests.attack.storms.client import Client
from tests.attack.storms.run import break_over
from tests.attack.storms.sky import Sky
from tests.attack.storms.storms import STORMS
from tests.attack.wire.target import broker


def test_a_broker_stands_short_storms(tmp_path: Path) -> None:
    with broker(tmp_path) as target:
        verdict = break_over(target, STORMS.values(), scale=0.01, gap_max_s=10)
    assert verdict.problems == [], str(verdict)
    assert verdict.tally.connections == len(STORMS)


def test_what_is_not_served_is_a_problem(tmp_path: Path) -> None:
    async def unanswered(sky: Sky) -> int:
        client: Client = (await sky.clients(1))[0]
        async with asyncio.timeout(0.2):
            await client.until(2, 0)
        return 0

    async def hung_up_on(sky: Sky) -> int:
        client: Client = (await sky.clients(1))[0]
        await client.say([b"\xff" * 100])
        await client.until(2, 0)
        return 0

    with broker(tmp_path) as target:
        verdict = break_over(target, [unanswered, hung_up_on], scale=0.01, gap_max_s=10)
    text = "\n".join(verdict.problems)
    assert "unserved: unanswered" in text
    assert "unserved: hung_up_on" in text


def test_a_storm_that_stops_the_loop_is_a_gap(tmp_path: Path) -> None:
    async def stopping(sky: Sky) -> int:
        (client,) = await sky.clients(1)
        await client.publish(1, topic="persistent://public/default/attacked-gap")
        return client.said

    with broker(tmp_path, "gap") as target:
        verdict = break_over(target, [stopping], scale=0.01, gap_max_s=1)
    assert any("gap" in each for each in verdict.problems), str(verdict)
