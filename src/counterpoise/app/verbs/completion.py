"""``counterpoise completion``: a script by which a shell completes verbs and options."""

import argparse
import sys

import shtab

from counterpoise.app.main import full_parser


def run(args: argparse.Namespace) -> int:
    """Run ``completion``: print a completion script for the shell."""
    sys.stdout.write(shtab.complete(full_parser(), shell=args.shell) + "\n")
    return 0
