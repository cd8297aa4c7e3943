"""Arguments of ``counterpoise watchdog``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.times import seconds

DESCRIPTION = "Look for bundles and leaders that are stuck although brokers answer."

EPILOG = """\
examples:
  counterpoise watchdog --admin-url http://localhost:8080
      looks for half a minute, says what was wrong all the time, and ends with status 1 if anything
  counterpoise watchdog --admin-url http://localhost:8080 --follow --metrics 9110
      goes on looking; an alert for each thing that begins to be wrong, a line when it is over
  counterpoise watchdog --admin-url http://localhost:8080 --remedy \\
          --service-url pulsar://localhost:6650
      reads the bundle state channel, too (extensible load manager), and does what is safe: looks
      up a bundle that no broker owns, unloads one that its owner does not serve

It finds: no leader, several, one that does not shed; a bundle that two brokers own, that none
owns though it carried load, that its recorded owner does not serve, that is stuck in between; a
broker that takes five times as long as the others to answer, at three looks in a row.
It never repairs two owners: which broker to stop is for a person to decide.
Exit status: 0 nothing is wrong (or --follow was stopped), 1 something is, 2 something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``watchdog``."""
    common.add_admin_url(parser)
    parser.add_argument(
        "--service-url", metavar="URL", help="pulsar://…, to read the bundle state channel"
    )
    common.add_interval(parser)
    common.number(
        parser, "--patience", "TIME", seconds, 30.0, "how long something has to look wrong", "s"
    )
    common.flag(parser, "--follow", "go on until stopped")
    common.flag(parser, "--remedy", "look up and unload where that is safe")
    common.add_json(parser, "what is wrong at the end")
    common.add_metrics(parser)
    common.add_notify(parser)
    common.add_timeout(parser)
    common.add_client(parser)
