"""`make kills`: the balancer killed at random points of its work, on a directory and on S3."""

import argparse
import asyncio
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import EXECUTOR, Campaign
from tests.pipeline.kills.driver import POINTS
from tests.pipeline.s3_server import bucket

STOPPED = 0.3
"""The part of the lives on S3 that stand still instead, while another takes over."""


async def run(history: str, home: Path, kills: int, seed: int, engine: str) -> None:
    rng = Random(seed)
    async with FakeCluster() as cluster:
        campaign = Campaign(cluster, history, home, rng, engine)
        await campaign.begin()
        for number in range(kills):
            executors = (EXECUTOR,) if engine == "spark" else ()
            point, nth = rng.choice((*POINTS, *executors)), rng.randint(1, 4)
            # A lock of this machine's ends with its process, and not before.
            stops = "://" in history and point != EXECUTOR and rng.random() < STOPPED
            words = "stopped, and another comes" if stops else "killed"
            print(f"{number + 1}/{kills}: {point}, time {nth}: {words}", flush=True)
            try:
                await (campaign.taken_over if stops else campaign.life)(point, nth)
            except BaseException:
                print("\n".join(campaign.said))
                raise
        await campaign.life("-")
        campaign.judge_the_end()
        print(f"{len(cluster.unloads)} unloads, {len(campaign.seen)} files, nothing twice or lost")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="on each of the two stores")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--engine", choices=("spark", "thread"), default="spark",
        help="what folds; a thread makes a life a few seconds",
    )  # fmt: skip
    args = parser.parse_args()
    with TemporaryDirectory(prefix="counterpoise-kills-") as home, bucket() as endpoint:
        for at in (f"{home}/history", endpoint.uri("killed")):
            print(f"a history in {at.partition('?')[0].rpartition('@')[2]}, seed {args.seed}")
            asyncio.run(run(at, Path(home) / "driver", args.kills, args.seed, args.engine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
