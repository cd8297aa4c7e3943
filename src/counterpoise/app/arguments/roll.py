"""Arguments of ``counterpoise roll``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common, pace
from counterpoise.app.arguments.rules import window
from counterpoise.app.times import seconds

DESCRIPTION = "Restart or upgrade a cluster broker by broker, each drained before it is stopped."

EPILOG = """\
examples:
  counterpoise roll --admin-url http://broker-1:8080,http://broker-2:8080 --history ./history
      in which order the brokers would be restarted; nothing is touched
  counterpoise roll --admin-url http://broker-1:8080,http://broker-2:8080 --history ./history \\
          --command 'ssh {host} sudo systemctl restart pulsar' --execute
      drain, restart, see it back and well, next; the last one is filled at the end
  counterpoise roll … --to-version 4.0.8 --window 22:00-04:00 --execute
      without a command it asks you to restart each broker, and sees when it is back

The bundles of a broker go to brokers that have been restarted already, where those can have them:
no bundle is moved more than twice. One broker is away at a time, one failure domain after the
other, the leader last. Before each broker the cluster has to be well for a while: every broker
there and answering, no alarm of the watchdog, no pause by `counterpoise control`, within --window.
The balancer of the history makes no rounds meanwhile.
Stopped or killed, the same line goes on where it was; a --command may then be run twice for one
broker. Give several addresses: the first may be the one that is restarted.
Exit status: 0, 1 when it stopped on the way, 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``roll``."""
    parser.add_argument(
        "broker", nargs="*", metavar="BROKER", help="host:port; default: every broker"
    )
    common.add_admin_url(parser)
    common.add_history(parser, "the balancer's history, in which it keeps how far it is")
    common.add_execute(parser)
    parser.add_argument(
        "--command",
        metavar="TEXT",
        help="restarts a broker; {host} and {broker} are replaced, and no shell reads it "
        "(default: you are asked to)",
    )
    parser.add_argument(
        "--to-version",
        default="",
        metavar="VERSION",
        help="what each broker is to have; brokers that have it are left out",
    )
    for name, default_s, what in (
        ("back-within", 600.0, "how long a broker may take until it is back and well"),
        ("settle", 10.0, "how long the cluster has to be well before the next broker"),
        ("patience", 600.0, "how long it may take until the cluster is well"),
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
        help="a broker is begun between these times of the day only, UTC",
    )
    common.flag(
        parser,
        "--partial",
        "restart a broker although some of its bundles can go to no other broker",
    )
    common.flag(
        parser,
        "--abandon",
        "restart nothing; give up the one that is under way, so that the balancer goes on",
    )
    common.add_placement(parser)
    pace.add_at_once(parser)
    pace.add_warm_up(parser)
    pace.add_stop_at_latency(parser)
    common.add_who_and_why(parser)
    common.add_timeout(parser)
    common.add_client(parser)
