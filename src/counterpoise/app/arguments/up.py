"""Arguments of ``counterpoise up``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.recordings.recording_file import RECORD_MIB

DESCRIPTION = "Start brokers and a balancer on this machine, until Ctrl-C."

BALANCE_EVERY_S = 10.0

EPILOG = """\
examples:
  counterpoise up                            three brokers on free ports, balanced; no Java
  counterpoise up --brokers 5 --no-balance   five brokers, bundles stay where they are
  counterpoise up --data ./cluster           keep messages and metadata for next time
  counterpoise up --port 6650 --web-port 8080
      brokers on 6650, 6651, …, their admin APIs on 8080, 8081, …
  counterpoise up --console                  also a web page about the cluster
  counterpoise up --faults                   let tests in any language set faults, over HTTP
  counterpoise up --record FILE              record what clients do, to replay it
  counterpoise up --spark                    Spark decides what is moved, and stores a history
  counterpoise up --metadata zk:             brokers as processes on a ZooKeeper of their own
  counterpoise up --metadata zk:10.0.0.1:2181/test
      brokers as processes on a ZooKeeper that runs already
  counterpoise up --bookies 3                messages on Apache BookKeeper, as Pulsar stores them

By default all brokers share one process, and their metadata is in a file. With zk: each broker is
a process, and Spark balances. ZooKeeper and Spark need Java 17 or later. Ctrl-C or SIGTERM stops
everything. So does killing this process, which loses nothing that was acknowledged.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``up``."""
    common.number(parser, "--brokers", "N", int, 3, "how many")
    common.file(
        parser,
        "--data",
        "the directory for all data (default: a temporary one, removed at the end)",
        "DIR",
    )
    parser.add_argument(
        "--metadata",
        metavar="URL",
        help="zk: (a ZooKeeper of its own), zk:host:port[/path] (one that runs already), or "
        "sqlite:///file (default: a file in --data)",
    )
    parser.add_argument(
        "--bookies",
        type=int,
        default=0,
        metavar="N",
        help=(
            "store messages on so many bookies of Apache BookKeeper, with a ZooKeeper (needs "
            "Java and BookKeeper's jars; default: messages are in files)"
        ),
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="first binary port (default: free)"
    )
    parser.add_argument(
        "--web-port", type=int, default=0, metavar="PORT", help="first admin port (default: free)"
    )
    common.add_conf(parser)
    parser.add_argument(
        "--balance",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether bundles are moved to even out the load (default yes)",
    )
    parser.add_argument(
        "--balance-every",
        type=float,
        default=BALANCE_EVERY_S,
        metavar="SECONDS",
        help=f"how often that is decided, without Spark (default {BALANCE_EVERY_S:g})",
    )
    common.flag(parser, "--spark", "let Spark decide (with zk: it always does)")
    common.add_balance_option(parser)
    parser.add_argument(
        "--console",
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="also serve a web page about the cluster (default port: free)",
    )
    common.flag(
        parser, "--faults", "let tests set faults over HTTP, at /admin/v2/faults of the admin URL"
    )
    _add_record_arguments(parser)
    common.add_json(parser, "the addresses")
    common.add_log_level(parser)


def _add_record_arguments(parser: argparse.ArgumentParser) -> None:
    common.file(
        parser,
        "--record",
        "record what clients do in a new file, payloads included, for 'counterpoise replay'",
    )
    parser.add_argument(
        "--record-mib",
        type=int,
        default=RECORD_MIB,
        metavar="MIB",
        help="the largest size of that file; recording stops there (%(default)s)",
    )
