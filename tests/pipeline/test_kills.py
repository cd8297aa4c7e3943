"""A driver killed with -9 between any two of its steps, and its executors: nothing twice or lost.

The long form is `make kills`.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import EXECUTOR, Campaign
from tests.pipeline.s3_server import Bucket, bucket

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.mark.parametrize(
    ("where", "points"),
    [
        ("a directory", ("reports", "asked", EXECUTOR)),
        ("an object store", ("rounds", "outcomes", "-")),
    ],
)
async def test_whoever_comes_after_a_kill_goes_on(
    cluster: FakeCluster, endpoint: Bucket, tmp_path: Path, where: str, points: tuple[str, ...]
) -> None:
    at = endpoint.uri("killed") if where == "an object store" else str(tmp_path / "history")
    campaign = Campaign(cluster, at, tmp_path / "driver", Random(1))
    await campaign.begin()
    for point in points:
        await campaign.life(point)
    campaign.judge_the_end()
