"""Reads a verb's options on moves: approval rules, and how moves are carried out."""

import argparse
from dataclasses import replace

from counterpoise.decide.balancing.approval import ApprovalRules
from counterpoise.decide.balancing.publish_latency import LatencyLimit
from counterpoise.pipeline.executor import ExecutorOptions
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions


def rules_of(args: argparse.Namespace) -> ApprovalRules:
    """Return the limits on moves without approval that the options set."""
    return ApprovalRules(
        moves_a_round=args.max_moves_a_round,
        moves_an_hour=args.max_moves_an_hour,
        part_a_round=args.max_load_a_round,
        part_an_hour=args.max_load_an_hour,
        unavailable_an_hour_s=args.max_unavailable_an_hour,
        window=args.window,
        leave_alone=args.leave_alone,
    )


def moves_of(args: argparse.Namespace) -> ExecutorOptions:
    """Return how moves are carried out: how many at once, and when they pause or stop."""
    made = ExecutorOptions(
        latency=LatencyWatchOptions(LatencyLimit(times=args.stop_at_latency)),
        warm_up_s=args.warm_up,
    )
    return replace(made, at_once=args.at_once) if "at_once" in args else made
