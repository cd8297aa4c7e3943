"""``counterpoise completion``: what makes a shell complete verbs and options."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

SHELLS = ("bash", "zsh", "tcsh")
EPILOG = """\
examples:
  counterpoise completion bash > ~/.local/share/bash-completion/completions/counterpoise
  counterpoise completion zsh > ~/.zfunc/_counterpoise     (with fpath+=~/.zfunc before compinit)
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``completion``."""
    parser = subparsers.add_parser(
        "completion",
        help="complete verbs and options in your shell",
        description="Prints what a shell has to be given so that it completes verbs and options.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print it."""
    import shtab

    from counterpoise.app.main import full_parser

    sys.stdout.write(shtab.complete(full_parser(), shell=args.shell) + "\n")
    return 0
