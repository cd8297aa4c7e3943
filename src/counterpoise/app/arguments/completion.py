"""Arguments of ``counterpoise completion``."""

import argparse

DESCRIPTION = "Prints a script with which a shell completes verbs and options."

SHELLS = ("bash", "zsh", "tcsh")

EPILOG = """\
examples:
  counterpoise completion bash > ~/.local/share/bash-completion/completions/counterpoise
  counterpoise completion zsh > ~/.zfunc/_counterpoise     (with fpath+=~/.zfunc before compinit)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``completion``."""
    parser.add_argument("shell", choices=SHELLS)
