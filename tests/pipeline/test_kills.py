"""A driver killed with -9 between its steps: nothing is done twice, and nothing is lost.

The balancer of the command line, a process for each life, on a directory and on S3; a thread folds
in Spark's place, so that a life is seconds. The long form, on Spark, is `make kills`.
"""

from pathlib import Path
from random import Random

import pytest

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import Campaign
from tests.pipeline.kills.driver import LATE
from tests.pipeline.kills.hands import own_disk
from tests.pipeline.kills.tampering import Tampering
from tests.pipeline.s3_server import bucket

pytestmark = pytest.mark.timeout(400)

LANDED, DECIDED, ACTED = "reports", "rounds", "asked"


async def killed(cluster: FakeCluster, history: str, home: Path, points: tuple[str, ...]) -> None:
    campaign = Campaign(cluster, history, home, Random(1), engine="thread", every_s=0.3)
    await campaign.begin()
    for point in points:
        await campaign.life(point)
    await campaign.life("-")
    campaign.judge_the_end()


async def test_whoever_comes_after_a_kill_goes_on(cluster: FakeCluster, tmp_path: Path) -> None:
    points = (LANDED, DECIDED, ACTED)
    await killed(cluster, str(tmp_path / "history"), tmp_path / "driver", points)


async def test_and_so_it_does_on_an_object_store(cluster: FakeCluster, tmp_path: Path) -> None:
    with bucket() as endpoint:
        await killed(cluster, endpoint.uri("killed"), tmp_path / "driver", (ACTED,))


async def test_who_stood_still_while_another_went_on_does_nothing_more(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Once with a move under way, and once with a poll that it had leave to write."""
    with bucket() as endpoint:
        history, home = endpoint.uri("stopped"), tmp_path / "driver"
        campaign = Campaign(cluster, history, home, Random(1), engine="thread", every_s=0.3)
        await campaign.begin()
        await campaign.taken_over(ACTED)
        await campaign.taken_over(LATE + LANDED)
        await campaign.life("-")
        campaign.judge_the_end()


async def test_whoever_laid_hands_on_a_history_finds_a_sentence_and_a_way_on(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """A file is damaged, all states are removed, and the disk is full, where we may mount one."""
    with own_disk(tmp_path / "disk") as own:
        disk = tmp_path / "disk"
        history, home = str(disk / "history"), tmp_path / "driver"
        campaign = Campaign(cluster, history, home, Random(2), engine="thread", every_s=0.3)
        hands = Tampering(campaign, disk if own else None)
        await campaign.begin()
        await campaign.life("-")
        for kind in ("a file cut off", "all states removed", "the disk full"):
            if kind in hands.kinds:
                await hands.do(kind)
        campaign.judge_the_end()
