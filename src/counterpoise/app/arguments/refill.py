"""Arguments of ``counterpoise refill``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.arguments.rules import add_rules

DESCRIPTION = "Move bundles to brokers that carry too little, until they carry the mean."

EPILOG = """\
examples:
  counterpoise refill broker-3:8080 --admin-url http://localhost:8080
      what it would be given, by whom, and what that costs; nothing is touched
  counterpoise refill broker-3:8080 --admin-url http://localhost:8080 \\
          --history ./history --execute --max-load-a-round 20%
      the same within rules, carried out; each new owner is asked whether it is the owner
  counterpoise refill broker-7:8080 broker-8:8080 --admin-url http://localhost:8080 --save plan.json
      two brokers that are new; `balance --execute --plan plan.json` carries it out

A broker that was restarted, or that is new, gets nothing of what runs already until some strategy's
threshold is crossed. This fills it to the mean, with few and large bundles from the brokers that
carry the most. Isolation policies, anti-affinity groups, failure domains and topic caps are read
from the cluster and obeyed. The history records what was done; hourly limits and a pause apply.
Exit status: 0, 1 when some of the plan was left, 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``refill``."""
    parser.add_argument(
        "broker", nargs="+", metavar="BROKER", help="host:port, as the cluster lists it"
    )
    common.add_admin_url(parser)
    common.add_history(parser, "the cluster's history; needed with --execute", required=False)
    common.add_execute(parser)
    add_rules(parser)
    common.flag(parser, "--partial", "go on with the rest where the world changed")
    common.add_wait_for_history(parser)
    common.add_json(parser, "the plan")
    common.add_save(parser)
    common.add_timeout(parser)
    common.add_client(parser)
