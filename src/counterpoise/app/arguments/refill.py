"""Arguments of ``counterpoise refill``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments.common import (
    add_execute_argument,
    add_history_argument,
    add_json_argument,
    add_save_argument,
    add_wait_for_history_argument,
)
from counterpoise.app.arguments.rules import add_rules
from counterpoise.app.client import add_admin_url_argument, add_client_arguments

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
    add_admin_url_argument(parser)
    add_history_argument(parser, "the cluster's history; needed with --execute", required=False)
    add_execute_argument(parser)
    add_rules(parser)
    parser.add_argument(
        "--partial", action="store_true", help="go on with the rest where the world changed"
    )
    add_wait_for_history_argument(parser)
    add_json_argument(parser, "the plan")
    add_save_argument(parser)
    add_client_arguments(parser)
