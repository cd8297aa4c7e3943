"""`make kills`: the balancer killed at random points of its work, on a directory and on S3.

Between two lives its history is corrupted, in a way that the seed chooses.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.kills.campaign import EXECUTOR, JVM, Campaign
from tests.pipeline.kills.corruption import own_disk
from tests.pipeline.kills.driver import BEGUN, COMMITS, POINTS
from tests.pipeline.kills.tampering import Tampering
from tests.pipeline.s3_server import Bucket, bucket


async def run(
    history: str, home: Path, args: argparse.Namespace, disk: Path | None, endpoint: Bucket | None
) -> None:
    rng, kills, engine = Random(args.seed), args.kills, args.engine
    async with FakeCluster() as cluster:
        campaign = Campaign(cluster, history, home, rng, engine)
        corruptions = Tampering(campaign, disk, endpoint)
        await campaign.begin()
        for number in range(kills):
            began = time.monotonic()
            print(f"{number + 1}/{kills}: ", end="", flush=True)
            try:
                if number and rng.random() < args.tampered:
                    print(kind := rng.choice([*corruptions.kinds]), end="", flush=True)
                    await corruptions.do(kind)
                else:
                    await _ends(campaign, args.stops)
            except BaseException:
                print("", *campaign.said, sep="\n")
                raise
            print(f" ({time.monotonic() - began:.0f} s)", flush=True)
        await campaign.life("-")
        await campaign.end_in_peace()
        count, polls = len(cluster.unloads), len(campaign.story.polls)
        print(f"{count} unloads, {polls} polls, nothing twice or lost")


async def _ends(campaign: Campaign, stops_part: float) -> None:
    """A life that ends somewhere, however that may be."""
    rng = campaign.rng
    of_spark = (EXECUTOR, JVM) if campaign.engine == "spark" else ()
    # A later time of the same is seldom another case, and takes Spark half a minute.
    most = 2 if of_spark else 4
    point, nth = rng.choice((*POINTS, *of_spark)), rng.randint(1, most)
    stops = point not in of_spark and rng.random() < stops_part
    if point in COMMITS and rng.random() < 0.5:
        point = BEGUN + point
    words = "stopped, and another comes" if stops else "killed"
    print(f"{point}, time {nth}: {words}", end="", flush=True)
    await (campaign.taken_over if stops else campaign.life)(point, nth)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="on each of the two stores")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--engine",
        choices=("spark", "thread"),
        default="spark",
        help="what folds; a thread makes a life a few seconds",
    )
    parser.add_argument(
        "--stops", type=float, default=0.3, metavar="PART",
        help="the part of the lives that stand still, while another takes over (0.3)",
    )  # fmt: skip
    parser.add_argument(
        "--tampered", type=float, default=0.3, metavar="PART",
        help="the part of the lives before which the history is corrupted (0.3)",
    )  # fmt: skip
    parser.add_argument("--only", choices=("directory", "s3"), help="(both)")
    args = parser.parse_args()
    with (
        TemporaryDirectory(prefix="counterpoise-kills-") as home,
        own_disk(disk := Path(home) / "disk") as own,
        bucket() as endpoint,
    ):
        if not own:
            print("no disk may be mounted here: none gets full or read-only")
        stores = {"directory": f"{disk}/history", "s3": endpoint.uri("killed")}
        for at in [at for name, at in stores.items() if args.only in (None, name)]:
            print(f"a history in {at.partition('?')[0].rpartition('@')[2]}, seed {args.seed}")
            on_s3 = "://" in at
            of_its_own = None if on_s3 or not own else disk
            lives = run(at, Path(home) / "driver", args, of_its_own, endpoint if on_s3 else None)
            asyncio.run(lives)
    return 0


if __name__ == "__main__":
    sys.exit(main())
