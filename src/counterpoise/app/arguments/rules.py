"""Options that limit the moves a balancer makes without approval, such as `--max-moves-a-round`."""

import argparse
from collections.abc import Iterable
from typing import Any

from counterpoise.app.arguments import pace
from counterpoise.app.errors import UserError
from counterpoise.app.numbers import count
from counterpoise.app.times import seconds
from counterpoise.names.bundle import BundleName, names_a_bundle
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName

RULES = (
    "max_moves_a_round",
    "max_load_a_round",
    "max_moves_an_hour",
    "max_load_an_hour",
    "max_unavailable_an_hour",
    "stop_at_latency",
    "window",
    "leave_alone",
)
"""The names of these options in argparse's namespace."""


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add the options that limit which moves a balancer makes without approval."""
    rules = parser.add_argument_group("rules, with --execute")
    for name, what in (("round", "a round"), ("hour", "an hour")):
        article = "an" if name == "hour" else "a"
        rules.add_argument(
            f"--max-moves-{article}-{name}",
            type=count,
            default=0,
            metavar="N",
            help=f"at most so many moves {what} (default: no limit)",
        )
        rules.add_argument(
            f"--max-load-{article}-{name}",
            type=part,
            default=0.0,
            metavar="PERCENT",
            help=f"at most so much of the cluster's bytes/s moves {what}, such as 10%% (default: "
            "no limit)",
        )
    rules.add_argument(
        "--max-unavailable-an-hour",
        type=seconds,
        default=0.0,
        metavar="TIME",
        help=(
            "for how long in an hour moves may make bundles of one namespace unavailable, in "
            "sum, such as 10s (default: no limit)"
        ),
    )
    pace.add_stop_at_latency(rules)
    pace.add_warm_up(rules)
    rules.add_argument(
        "--window",
        type=window,
        metavar="HH:MM-HH:MM",
        help="bundles move only between these times of the day, UTC",
    )
    rules.add_argument(
        "--leave-alone",
        type=left_alone,
        default=frozenset(),
        metavar="NAMESPACES",
        help="namespaces or bundles that are not moved, separated by commas",
    )


def part(text: str) -> float:
    """Parse a percentage such as ``10%`` into a fraction; for argparse."""
    try:
        found = float(text.removesuffix("%")) / 100
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not such as 10%") from None
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0% and at most 100%")
    return found


def window(text: str) -> tuple[int, int]:
    """Parse a time window such as ``22:00-06:00`` into minutes of the day; for argparse."""
    try:
        first, last = (
            int(hours) * 60 + int(minutes)
            for hours, minutes in (part.split(":") for part in text.split("-"))
        )
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not such as 22:00-06:00") from None
    if not (0 <= first < 1440 and 0 <= last <= 1440):
        raise argparse.ArgumentTypeError(f"{text!r}: a day has 24 hours")
    if first == last:
        raise argparse.ArgumentTypeError(f"{text!r}: nothing would ever move between these")
    return first, last


def left_alone(text: str) -> frozenset[str]:
    """Parse a comma-separated list of namespaces and bundles; for argparse."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        try:
            BundleName.parse(name) if names_a_bundle(name) else NamespaceName.parse(name)
        except InvalidName as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return frozenset(names)


def refuse_idle(args: argparse.Namespace, idle: dict[str, Any], why: str) -> None:
    """Raise `UserError` for the first option that was given although it has no effect.

    `idle` has the default of each such option; `why` ends the message.
    """
    for name, usual in idle.items():
        if getattr(args, name) != usual:
            raise UserError(f"--{name.replace('_', '-')} changes nothing {why}")


def usual(parser: argparse.ArgumentParser, names: Iterable[str]) -> dict[str, Any]:
    """The default values of these options, by name."""
    return {name: parser.get_default(name) for name in names}
