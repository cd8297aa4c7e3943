"""A driver killed with -9 between its steps, and an executor: nothing twice, nothing lost.

The long form, on an object store too, is `make kills`.
"""

from pathlib import Path
from random import Random

import pytest

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import EXECUTOR, Campaign

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


async def test_whoever_comes_after_a_kill_goes_on(cluster: FakeCluster, tmp_path: Path) -> None:
    campaign = Campaign(cluster, str(tmp_path / "history"), tmp_path / "driver", Random(1))
    await campaign.begin()
    for point in ("reports", "asked", EXECUTOR):
        await campaign.life(point)
    campaign.judge_the_end()
