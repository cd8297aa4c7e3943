"""``counterpoise split``: cut a bundle in two or more."""

from __future__ import annotations

import argparse
import asyncio
import sys
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from counterpoise.app.client import add_client_arguments
from counterpoise.app.cluster_admin import ClusterAdmin
from counterpoise.app.errors import UserError
from counterpoise.app.target import Target, add_target_argument, with_target
from counterpoise.names.bundle import BundleName, BundleRange

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise split public/default/0x00000000_0x40000000 --admin-url http://broker-1:8080
      in the middle of its range
  counterpoise split persistent://public/default/orders --admin-url URL \\
          --algorithm topic_count_equally_divide --unload
      the bundle that this topic is in, so that both halves have as many topics; then unload them
  counterpoise split public/default/0x00000000_0x40000000 --at 0x10000000 --admin-url URL
      just there

Prints the bundles that it was cut into. Works on this product's clusters and on Apache's.
Exit status: 0, or 1 when it is in one piece still, 2 for something to put right.
"""
ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
HEARD_WITHIN_S = 5.0
POLL_S = 0.05
EXIT_WHOLE = 1
WHOLE = 2
"""Edges of a bundle that is not cut."""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``split``."""
    parser = subparsers.add_parser(
        "split",
        help="cut a bundle in two",
        description="Splits a bundle.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_target_argument(parser, namespaces=False)
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        metavar="NAME",
        help=f"{', '.join(ALGORITHMS)} (default: as the cluster is set)",
    )
    parser.add_argument(
        "--at", action="append", type=_position, metavar="HASH", help="where, once or more"
    )
    parser.add_argument(
        "--unload",
        action="store_true",
        help="unload the parts at once, so that brokers are chosen again",
    )
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Split it, and list the parts."""
    return with_target(args, _split)


async def _split(cluster: ClusterAdmin, wanted: Target, args: argparse.Namespace) -> int:
    bundle = await wanted.bundle(cluster)
    if bundle is None:
        raise UserError(f"{wanted.namespace} is a namespace: name one of its bundles, or a topic")
    algorithm = args.algorithm or ("specified_positions_divide" if args.at else None)
    if args.at and algorithm != "specified_positions_divide":
        raise UserError("--at goes with --algorithm specified_positions_divide, or with none")
    query = {
        "unload": str(args.unload).lower(),
        **({"splitAlgorithmName": algorithm} if algorithm else {}),
    }
    path = f"/admin/v2/namespaces/{bundle}/split?{urlencode(query)}"
    await cluster.ask("PUT", path, args.at)
    edges = await _edges(cluster, wanted.namespace, BundleName.parse(bundle).range)
    if len(edges) <= WHOLE:
        sys.stderr.write(
            f"counterpoise: {bundle} is in one piece still: the cluster cuts no bundle of fewer "
            "than two topics by their number, their load or given positions\n"
        )
        return EXIT_WHOLE
    for low, high in pairwise(edges):
        sys.stdout.write(f"{wanted.namespace}/{low}_{high}\n")
    return 0


async def _edges(cluster: ClusterAdmin, namespace: str, whole: BundleRange) -> list[str]:
    """Where the bundle is cut now; the broker that is asked may hear of it a moment later."""
    deadline = asyncio.get_running_loop().time() + HEARD_WITHIN_S
    while True:
        found = await cluster.ask("GET", f"/admin/v2/namespaces/{namespace}/bundles")
        edges = [
            each for each in found["boundaries"] if whole.lower <= int(each, 16) <= whole.upper
        ]
        if len(edges) > WHOLE or asyncio.get_running_loop().time() > deadline:
            return edges
        await asyncio.sleep(POLL_S)


def _position(text: str) -> int:
    try:
        found = int(text, 0)
    except ValueError:
        found = -1
    if not 0 <= found <= 0xFFFFFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is no hash from 0 to 0xffffffff")
    return found
