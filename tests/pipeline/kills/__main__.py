"""`make kills`: the balancer killed at random points of its work, on a directory and on S3."""

import argparse
import asyncio
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import EXECUTOR, KEPT, Campaign
from tests.pipeline.kills.driver import LATE, POINTS
from tests.pipeline.s3_server import Bucket, bucket


async def run(history: str, home: Path, args: argparse.Namespace) -> None:
    rng, kills, engine = Random(args.seed), args.kills, args.engine
    async with FakeCluster() as cluster:
        campaign = Campaign(cluster, history, home, rng, engine)
        await campaign.begin()
        for number in range(kills):
            executors = (EXECUTOR,) if engine == "spark" else ()
            point, nth = rng.choice((*POINTS, *executors)), rng.randint(1, 4)
            # A lock of this machine's ends with its process, and not before.
            stops = "://" in history and point != EXECUTOR and rng.random() < args.stops
            if stops and point in KEPT and rng.random() < 0.5:
                point = LATE + point
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


def _say_late(endpoint: Bucket) -> None:
    """Name the polls that arrived behind later ones: a write that was on its way in a stop."""
    newest = ""
    for name in endpoint.writes:
        if "/reports/" in name and name < newest:
            print(f"landed late: {name}")
        elif "/reports/" in name:
            newest = name


def main() -> int:
    parser = argparse.ArgumentParser(prog="make kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="on each of the two stores")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--engine", choices=("spark", "thread"), default="spark",
        help="what folds; a thread makes a life a few seconds",
    )  # fmt: skip
    parser.add_argument(
        "--stops", type=float, default=0.3, metavar="PART",
        help="the part of the lives on S3 that stand still, while another takes over (0.3)",
    )  # fmt: skip
    parser.add_argument("--only", choices=("directory", "s3"), help="(both)")
    args = parser.parse_args()
    with TemporaryDirectory(prefix="counterpoise-kills-") as home, bucket() as endpoint:
        stores = {"directory": f"{home}/history", "s3": endpoint.uri("killed")}
        for at in [at for name, at in stores.items() if args.only in (None, name)]:
            print(f"a history in {at.partition('?')[0].rpartition('@')[2]}, seed {args.seed}")
            try:
                asyncio.run(run(at, Path(home) / "driver", args))
            finally:
                _say_late(endpoint)
    return 0


if __name__ == "__main__":
    sys.exit(main())
