"""``counterpoise decide split``: where an algorithm would cut a bundle."""

from __future__ import annotations

import argparse

from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.json_lines import answer_lines
from counterpoise.decide.splitting import ALGORITHMS, SplitOptions
from counterpoise.decide.splitting.line import split_line

EPILOG = """\
one line of standard input:
  {"bundle": "tenant/ns/0x00000000_0x80000000", "topics": {"persistent://tenant/ns/a":
   {"msgRateIn": 10, "msgRateOut": 10, "msgThroughputIn": 1e6, "msgThroughputOut": 1e6}},
   "boundaries": ["0x40000000"]}
and its answer:
  {"boundaries": ["0x40000000"], "reason": "specified", "sentence": "..."}

"topics" may be left out for range_equally_divide; only specified_positions_divide reads
"boundaries".
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``decide split``."""
    parser = subparsers.add_parser(
        "split",
        help="where a bundle would be cut",
        description="Answers each line of load data with the boundaries an algorithm chooses.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--algorithm",
        choices=list(ALGORITHMS),
        metavar="NAME",
        help=f"{', '.join(ALGORITHMS)}; without it, defaultNamespaceBundleSplitAlgorithm",
    )
    add_conf_arguments(parser)
    parser.set_defaults(decide=run)


def run(args: argparse.Namespace) -> int:
    """Answer standard input line by line."""
    options = settings_from(SplitOptions, read_conf(args.conf, args.settings))
    name = args.algorithm or options.default_algorithm
    answer_lines(lambda value: split_line(value, name, options))
    return 0
