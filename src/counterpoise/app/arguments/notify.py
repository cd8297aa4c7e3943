"""Arguments of ``counterpoise notify``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Try the webhook by which a watcher or a balancer notifies an operator."

EPILOG = """\
examples:
  counterpoise notify test --notify https://hooks.slack.com/services/… --notify-format slack
  counterpoise notify test --notify http://alertmanager:9093 --notify-format alertmanager
      sends one notice, and says whether it was taken

The same options of `balance`, `watch` and `watchdog` notify of what the watchdog finds (and when it
is over), of rounds that move something, of moves that failed or that a rule withheld, and of
everything that stops moves. A webhook never delays a balancer: notices wait in a list of a hundred,
go out at most every two seconds after the first ten, and are tried five times.
Exit status: 0 when it was taken, 2 for something to put right.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``notify``."""
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to do")
    verb = inner.add_parser("test", help="send one notice", description="Send one notice.")
    common.add_notify(verb, required=True)
