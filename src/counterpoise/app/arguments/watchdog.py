"""Arguments of ``counterpoise watchdog``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.times import seconds

DESCRIPTION = "Find stuck bundles and leaders of a cluster whose brokers still respond."

EPILOG = """\
examples:
  counterpoise watchdog --admin-url http://localhost:8080
      polls for half a minute, and reports faults that lasted all the time, with status 1 if any
  counterpoise watchdog --admin-url http://localhost:8080 --follow --metrics 9110
      polls until stopped; prints an alert when a fault begins, and a line when it is over
  counterpoise watchdog --admin-url http://localhost:8080 --remedy \\
          --service-url pulsar://localhost:6650
      also reads the bundle state channel (extensible load manager), and carries out safe remedies:
      looks up a bundle that no broker owns, unloads one that its owner does not serve

It finds: no leader, several leaders, a leader that does not shed; a bundle that two brokers own,
that none owns although it carried load, that its recorded owner does not serve, or whose transfer
is stuck; a broker that takes five times as long as the others to respond, at three polls in a row.
It never repairs a bundle with two owners: a person has to decide which broker to stop.
Exit status: 0 if there is no fault (or --follow was stopped), 1 if there is, 2 an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``watchdog``."""
    common.add_admin_url(parser)
    parser.add_argument(
        "--service-url", metavar="URL", help="pulsar://…, to read the bundle state channel"
    )
    common.add_interval(parser)
    common.number(
        parser,
        "--patience",
        "TIME",
        seconds,
        30.0,
        ("how long a fault has to last before it is reported"),
        "s",
    )
    common.flag(parser, "--follow", "go on until stopped")
    common.flag(parser, "--remedy", "look up or unload bundles where that is safe")
    common.add_json(parser, "the faults found at the end")
    common.add_metrics(parser)
    common.add_notify(parser)
    common.add_client(parser)
