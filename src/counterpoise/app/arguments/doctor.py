"""Arguments of ``counterpoise doctor``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.numbers import count

DESCRIPTION = "Checks the balancing settings of a broker.conf for contradictions and traps."

EPILOG = """\
examples:
  counterpoise doctor --conf broker.conf --brokers 6 --bundles 32
  counterpoise doctor --set loadBalancerLoadSheddingStrategy=... --json
  counterpoise doctor --settings

Exit status: 0 if there is at most advice, 1 if there are problems, 2 if the file cannot be read.
The settings are judged as those of Pulsar 4.0.7. Each finding names the settings, their effect, the
values to set instead, and the public issue that reports it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``doctor``."""
    parser.add_argument("file", nargs="?", help="the broker.conf; the same as --conf")
    common.add_conf(parser)
    parser.add_argument(
        "--brokers", type=count, metavar="N", help="how many brokers the cluster has"
    )
    parser.add_argument(
        "--bundles", type=count, metavar="N", help="how many bundles its busiest namespace has"
    )
    common.add_json(parser, "the findings")
    parser.add_argument(
        "--settings", dest="list", action="store_true", help="list every setting that is known"
    )
