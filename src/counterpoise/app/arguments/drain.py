"""Arguments of ``counterpoise drain``."""

import argparse

from counterpoise.app.arguments import common, pace
from counterpoise.app.numbers import count

DESCRIPTION = "Move every bundle of a broker to others, through the cluster's admin API."

EPILOG = """\
examples:
  counterpoise drain broker-3:8080 --admin-url http://localhost:8080
      where each of its bundles would go, and why; nothing is moved
  counterpoise drain broker-3:8080 --admin-url http://localhost:8080 --execute
      the same, carried out; each new owner is verified

Isolation policies, anti-affinity groups, failure domains and the cluster's own settings are read
from the cluster and obeyed. Moves that fail are placed and tried again, --attempts times in all.
The cluster may assign new bundles to a drained broker until it is stopped. With --history it is
cordoned: the balancer of that history moves nothing to it until `counterpoise refill` or --release.
Exit status: 0 if no bundle is left on it (or would be), 1 if some are, 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``drain``."""
    parser.add_argument("broker", metavar="BROKER", help="host:port, as the cluster lists it")
    common.add_admin_url(parser)
    common.add_execute(parser)
    common.add_placement(parser)
    pace.add_at_once(parser)
    pace.add_warm_up(parser)
    pace.add_stop_at_latency(parser)
    common.number(parser, "--attempts", "N", count, 3, "attempts to move a bundle")
    common.flag(parser, "--partial", "move the other bundles even if some cannot be moved")
    common.flag(
        parser,
        "--release",
        "move nothing; end the cordon of a broker that was drained with --history",
    )
    common.add_trail(parser)
    common.add_json(parser, "plan and outcomes")
    common.add_client(parser)
