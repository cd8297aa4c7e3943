"""A driver killed with -9 between its steps: nothing is done twice, and nothing is lost.

The balancer of the command line, a process for each life, on a directory and on S3; a thread folds
in Spark's place, so that a life is seconds. The long form, on Spark, is `make kills`.
"""

from pathlib import Path
from random import Random

import pytest

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import Campaign
from tests.pipeline.kills.corruption import own_disk
from tests.pipeline.kills.driver import BEGUN
from tests.pipeline.kills.tampering import Tampering
from tests.pipeline.s3_server import bucket

pytestmark = pytest.mark.timeout(400)

LANDED, FOLDED, DECIDED, ACTED = "reports", "fold_state", "round", "asked"


async def killed(cluster: FakeCluster, history: str, home: Path, points: tuple[str, ...]) -> None:
    campaign = Campaign(cluster, history, home, Random(1), engine="thread", every_s=0.3)
    await campaign.begin()
    for point in points:
        await campaign.life(point)
    await campaign.life("-")
    await campaign.end_in_peace()


async def test_the_balancer_that_follows_a_kill_goes_on(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    points = (LANDED, BEGUN + FOLDED, BEGUN + DECIDED, DECIDED, ACTED)
    await killed(cluster, str(tmp_path / "history"), tmp_path / "driver", points)


async def test_and_so_it_does_on_an_object_store(cluster: FakeCluster, tmp_path: Path) -> None:
    with bucket() as endpoint:
        await killed(cluster, endpoint.uri("killed"), tmp_path / "driver", (ACTED,))


@pytest.mark.parametrize("at", ["a directory", "S3"])
async def test_a_balancer_that_stood_still_while_another_went_on_does_nothing_more(
    cluster: FakeCluster, tmp_path: Path, at: str
) -> None:
    """Once with a move under way, and once in the middle of the commit of a round."""
    with bucket() as endpoint:
        history = endpoint.uri("stopped") if at == "S3" else str(tmp_path / "history")
        home = tmp_path / "driver"
        campaign = Campaign(cluster, history, home, Random(1), engine="thread", every_s=0.3)
        await campaign.begin()
        await campaign.taken_over(ACTED)
        await campaign.taken_over(BEGUN + DECIDED)
        await campaign.life("-")
        await campaign.end_in_peace()


async def test_a_history_that_was_corrupted_is_named_in_a_sentence_with_a_way_on(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """A state and a poll are damaged, and the disk is full, where we may mount one."""
    with own_disk(tmp_path / "disk") as own:
        disk = tmp_path / "disk"
        history, home = str(disk / "history"), tmp_path / "driver"
        campaign = Campaign(cluster, history, home, Random(2), engine="thread", every_s=0.3)
        corruptions = Tampering(campaign, disk if own else None)
        await campaign.begin()
        await campaign.life("-")
        for kind in ("a state cut off", "a poll cut off", "the disk full"):
            if kind in corruptions.kinds:
                await corruptions.do(kind)
        await campaign.end_in_peace()
