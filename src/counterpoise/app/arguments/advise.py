"""Arguments of ``counterpoise advise``."""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpoise.app.arguments.common import (
    add_at_once_argument,
    add_history_argument,
    add_interval_argument,
    add_json_argument,
    add_move_seconds_argument,
    add_save_argument,
    add_strategy_arguments,
    add_thrash_span_argument,
)
from counterpoise.app.client import add_admin_url_argument, add_client_arguments
from counterpoise.app.conf import add_conf_arguments
from counterpoise.app.numbers import count

DESCRIPTION = "Plan how a cluster could be evened out, with reasons, costs and before/after."

EPILOG = """\
examples:
  counterpoise advise --admin-url http://localhost:8080 --html plan.html
      what would be moved on that cluster now, what it costs, why, and why not the rest
  counterpoise advise --admin-url http://localhost:8080 --history ./history --save plan.json
      the same with the averages, and the times that moves took, of a history; kept for
      `counterpoise balance --execute --plan plan.json`
  counterpoise advise --history ./history
      from what the history recorded of the last look; no broker is asked

The settings are the cluster's own where a broker returns them; --conf and --set win over them.
Nothing is touched. Splits are advised, never planned: a split cannot be undone.
Exit status: 0, or 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``advise``."""
    add_admin_url_argument(parser, required=False)
    add_history_argument(parser, "what was recorded of that cluster", required=False)
    add_strategy_arguments(parser)
    add_conf_arguments(parser)
    parser.add_argument(
        "--looks", type=count, default=1, metavar="N", help="how often the cluster is looked at (1)"
    )
    add_interval_argument(parser)
    parser.add_argument(
        "--rounds", type=count, default=10, metavar="N", help="rounds of the strategy at most (10)"
    )
    parser.add_argument(
        "--every-move",
        action="store_true",
        help="the strategy's own plan, with the moves that gain nothing (default: left out)",
    )
    add_at_once_argument(parser)
    add_move_seconds_argument(parser)
    add_thrash_span_argument(parser, 3 * 3600)
    add_json_argument(parser, "the plan")
    add_save_argument(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page with plots")
    add_client_arguments(parser)
