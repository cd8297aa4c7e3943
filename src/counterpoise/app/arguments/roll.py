"""Arguments of ``counterpoise roll``."""

import argparse

from counterpoise.app.arguments import common, pace
from counterpoise.app.arguments.rules import window
from counterpoise.app.times import seconds

DESCRIPTION = "Restart or upgrade a cluster broker by broker, each drained before it is stopped."

EPILOG = """\
examples:
  counterpoise roll --admin-url http://broker-1:8080,http://broker-2:8080 --history ./history
      in which order the brokers would be restarted; nothing is restarted
  counterpoise roll --admin-url http://broker-1:8080,http://broker-2:8080 --history ./history \\
          --command 'ssh {host} sudo systemctl restart pulsar' --execute
      drains each broker, restarts it, waits until it is healthy; refills the last one
  counterpoise roll … --to-version 4.0.8 --window 22:00-04:00 --execute
      without a command it asks you to restart each broker, and waits until it is back

The bundles of a broker go to brokers that have been restarted already, if these can own them: no
bundle is moved more than twice. Brokers are restarted one at a time, one failure domain after the
other, the leader last. Before each broker the cluster has to be healthy for a while: every broker
is listed and responds, the watchdog has no alert, `counterpoise control` has not paused moves, and
the time is within --window.
The balancer of the history makes no rounds meanwhile.
If it is stopped or killed, the same command line continues it; --command may then be run twice for
one broker. Give several addresses: the first may be the one that is restarted.
Exit status: 0, 1 if it stopped before the end, 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``roll``."""
    parser.add_argument(
        "broker", nargs="*", metavar="BROKER", help="host:port; default: every broker"
    )
    common.add_admin_url(parser)
    common.add_history(parser, "the balancer's history, which records the progress of the restart")
    common.add_execute(parser)
    parser.add_argument(
        "--command",
        metavar="TEXT",
        help=(
            "the command that restarts a broker, run without a shell; {host} and {broker} are "
            "replaced (default: you are asked to restart it)"
        ),
    )
    parser.add_argument(
        "--to-version",
        default="",
        metavar="VERSION",
        help="the version that each broker is to run; brokers that run it are left out",
    )
    for name, default_s, what in (
        ("back-within", 600.0, "how long a broker may take until it is back and healthy"),
        ("settle", 10.0, "how long the cluster has to be healthy before the next broker"),
        ("patience", 600.0, "how long it may take until the cluster is healthy"),
    ):
        parser.add_argument(
            f"--{name}",
            type=seconds,
            default=default_s,
            metavar="TIME",
            help=f"{what} ({default_s:g}s)",
        )
    parser.add_argument(
        "--window",
        type=window,
        metavar="HH:MM-HH:MM",
        help="restarts begin only between these times of the day, UTC",
    )
    common.flag(
        parser,
        "--partial",
        "restart a broker even if some of its bundles can go to no other broker",
    )
    common.flag(
        parser,
        "--abandon",
        "restart nothing; give up the interrupted rolling restart, so that the balancer continues",
    )
    common.add_placement(parser)
    pace.add_at_once(parser)
    pace.add_warm_up(parser)
    pace.add_stop_at_latency(parser)
    common.add_who_and_why(parser)
    common.add_client(parser)
