"""Options for how moves are carried out: how many at once, when they pause, when they stop."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.numbers import count, latency_factor
from counterpoise.app.times import seconds


def add_at_once(parser: argparse.ArgumentParser) -> None:
    """Add ``--at-once``: how many bundles move at the same time."""
    common.number(parser, "--at-once", "N", count, 4, "how many bundles move at once")


def add_warm_up(to: argparse._ActionsContainer) -> None:
    """Add ``--warm-up``: how long a new owner of a namespace's bundles gets only one of them."""
    to.add_argument(
        "--warm-up",
        type=seconds,
        default=5.0,
        metavar="TIME",
        help="how long a broker that owns nothing of a namespace has with the lightest bundle it "
        "gets before the others follow: its first topics take seconds to load (5s; 0: no wait)",
    )


def add_stop_at_latency(to: argparse._ActionsContainer) -> None:
    """Add ``--stop-at-latency``: the rise of publish latency at which moves stop."""
    to.add_argument(
        "--stop-at-latency",
        type=latency_factor,
        default=2.0,
        metavar="xF",
        help="begin no further move once a broker's mean publish latency is so many times what it "
        "was before the moves, and 20 ms more, for some seconds (x2; 0: whatever it is)",
    )
