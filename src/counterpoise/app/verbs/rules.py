"""The approval rules that a verb was given."""

from __future__ import annotations

import argparse

from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.publish_latency import LatencyLimit
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions


def rules_of(args: argparse.Namespace) -> ApprovalRules:
    """The limits on moves without approval that the options set."""
    return ApprovalRules(
        moves_a_round=args.max_moves_a_round,
        moves_an_hour=args.max_moves_an_hour,
        part_a_round=args.max_load_a_round,
        part_an_hour=args.max_load_an_hour,
        unavailable_an_hour_s=args.max_unavailable_an_hour,
        window=args.window,
        leave_alone=args.leave_alone,
    )


def latency_watch_of(args: argparse.Namespace) -> LatencyWatchOptions:
    """At which rise of publish latency the options stop moves."""
    return LatencyWatchOptions(LatencyLimit(times=args.stop_at_latency))
