"""Arguments of ``counterpoise notify``."""

import argparse

from counterpoise.app.arguments import common

DESCRIPTION = "Try the webhook by which a watcher or a balancer notifies an operator."

EPILOG = """\
examples:
  counterpoise notify test --notify https://hooks.slack.com/services/… --notify-format slack
  counterpoise notify test --notify http://alertmanager:9093 --notify-format alertmanager
      sends one notice, and prints whether it was accepted

The same options of `balance`, `watch` and `watchdog` notify of what the watchdog finds (and when it
is over), of rounds that move something, of moves that failed or that a rule withheld, and of
everything that stops moves. A webhook never delays a balancer: up to a hundred notices are queued,
sent at most every two seconds after the first ten, and tried five times.
Exit status: 0 if it was accepted, 2 for an error to correct.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``notify``."""
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to do")
    verb = inner.add_parser("test", help="send one notice", description="Send one notice.")
    common.add_notify(verb, required=True)
