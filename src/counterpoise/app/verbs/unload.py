"""``counterpoise unload``: hand a bundle, or all of a namespace, to another broker."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

from counterpoise.app.client import add_client_arguments
from counterpoise.app.cluster_admin import ClusterAdmin
from counterpoise.app.target import Target, add_target_argument, with_target

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

EPILOG = """\
examples:
  counterpoise unload public/default/0x00000000_0x40000000 --admin-url http://broker-1:8080
      to whichever broker the cluster's placement chooses
  counterpoise unload persistent://public/default/orders --to broker-2:8080 --admin-url URL
      the bundle that this topic is in, to a broker by its id
  counterpoise unload public/default --admin-url http://broker-1:8080
      every bundle of the namespace

The cluster is asked afterwards who has the bundle. Works on this product's clusters and on
Apache's. Exit status: 0, or 1 when the broker of --to does not have it within --wait, 2 for
something to put right.
"""
EXIT_ELSEWHERE = 1


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``unload``."""
    parser = subparsers.add_parser(
        "unload",
        help="hand a bundle to another broker",
        description="Unloads a bundle, or every bundle of a namespace.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_target_argument(parser)
    parser.add_argument("--to", metavar="BROKER", help="host:port, as `counterpoise brokers` lists")
    parser.add_argument(
        "--wait",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds until the broker of --to is to have it (10)",
    )
    add_client_arguments(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Unload it, and say who has it then."""
    return with_target(args, _unload)


async def _unload(cluster: ClusterAdmin, wanted: Target, args: argparse.Namespace) -> int:
    bundle = await wanted.bundle(cluster)
    to = f"?destinationBroker={quote(args.to, safe='')}" if args.to else ""
    if bundle is None:
        wanted.no_destination(args.to)
        await cluster.ask("PUT", f"/admin/v2/namespaces/{wanted.namespace}/unload")
        _say(f"{wanted.namespace}: every bundle was unloaded")
        return 0
    before = await cluster.owner(bundle)
    await cluster.ask("PUT", f"/admin/v2/namespaces/{bundle}/unload{to}")
    if args.to is None:
        after = await cluster.owner(bundle)
        owner = f"{after} owns it now" if after else "no broker owns it until its next lookup"
        _say(f"{bundle}: unloaded from {before or 'no broker'}; {owner}")
        return 0
    after = await cluster.until_owned(bundle, args.to, args.wait)
    _say(f"{bundle}: from {before or 'no broker'} to {after or 'no broker yet'}")
    if after == args.to:
        return 0
    sys.stderr.write(
        f"counterpoise: {args.to} does not have it after {args.wait:g} s: a lookup may have come "
        "first, or it takes it at the next lookup\n"
    )
    return EXIT_ELSEWHERE


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
