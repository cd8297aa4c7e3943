"""Arguments of ``counterpoise refill``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.arguments.rules import add_rules

DESCRIPTION = "Move bundles to brokers that carry too little, until they carry the mean."

EPILOG = """\
examples:
  counterpoise refill broker-3:8080 --admin-url http://localhost:8080
      which bundles it would get, from which brokers, at what cost; nothing is moved
  counterpoise refill broker-3:8080 --admin-url http://localhost:8080 \\
          --history ./history --execute --max-load-a-round 20%
      the same within rules, carried out; each new owner is verified
  counterpoise refill broker-7:8080 broker-8:8080 --admin-url http://localhost:8080 --save plan.json
      two brokers that are new; `balance --execute --plan plan.json` carries it out

A restarted or new broker gets none of the existing load until some strategy's threshold is
exceeded. This fills it to the mean, with few and large bundles from the most loaded brokers.
Isolation policies, anti-affinity groups, failure domains and topic caps are read from the cluster
and obeyed. The history records what was done; hourly limits and a pause apply.
Exit status: 0, 1 if some of the plan was not carried out, 2 for an error to correct.
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
    common.flag(
        parser, "--partial", ("carry out the remaining moves even if the cluster has changed")
    )
    common.add_wait_for_history(parser)
    common.add_json(parser, "the plan")
    common.add_save(parser)
    common.add_client(parser)
