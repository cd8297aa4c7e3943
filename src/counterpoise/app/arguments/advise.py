"""Arguments of ``counterpoise advise``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common, pace
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
    common.add_admin_url(parser, required=False)
    common.add_history(parser, "what was recorded of that cluster", required=False)
    common.add_strategy(parser)
    common.add_conf(parser)
    common.number(parser, "--looks", "N", count, 1, "how often the cluster is looked at")
    common.add_interval(parser)
    common.number(parser, "--rounds", "N", count, 10, "rounds of the strategy at most")
    common.flag(
        parser,
        "--every-move",
        "the strategy's own plan, with the moves that gain nothing (default: left out)",
    )
    pace.add_at_once(parser)
    common.add_move_seconds(parser)
    common.add_thrash_span(parser, 3 * 3600)
    common.add_costly_span(parser)
    common.add_json(parser, "the plan")
    common.add_save(parser)
    common.file(parser, "--html", "write it as a page with plots")
    common.add_timeout(parser)
    common.add_client(parser)
