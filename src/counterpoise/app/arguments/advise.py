"""Arguments of ``counterpoise advise``."""

import argparse

from counterpoise.app.arguments import common, pace
from counterpoise.app.numbers import count

DESCRIPTION = "Plan how a cluster could be evened out, with reasons, costs and before/after."

EPILOG = """\
examples:
  counterpoise advise --admin-url http://localhost:8080 --html plan.html
      which bundles would be moved now, at what cost, why, and why others stay
  counterpoise advise --admin-url http://localhost:8080 --history ./history --save plan.json
      the same with a history's averages and durations of moves, saved for
      `counterpoise balance --execute --plan plan.json`
  counterpoise advise --history ./history
      from the history's last poll; no broker is asked

The settings are those that a broker returns; --conf and --set override them. Nothing is changed.
Splits are advised and never part of a plan, since a split cannot be undone.
Exit status: 0, or 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``advise``."""
    common.add_admin_url(parser, required=False)
    common.add_history(parser, "the recorded history of that cluster", required=False)
    common.add_strategy(parser)
    common.add_conf(parser)
    common.number(parser, "--looks", "N", count, 1, "how many times the cluster is polled first")
    common.add_interval(parser)
    common.number(parser, "--rounds", "N", count, 10, "at most so many rounds of the strategy")
    common.flag(
        parser,
        "--every-move",
        "keep the strategy's moves that gain nothing (default: they are left out)",
    )
    pace.add_at_once(parser)
    common.add_move_seconds(parser)
    common.add_thrash_span(parser, 3 * 3600)
    common.add_costly_span(parser)
    common.add_json(parser, "the plan")
    common.add_save(parser)
    common.file(parser, "--html", "write the plan as an HTML page with plots")
    common.add_client(parser)
