"""The command line: finds the verb, runs it, turns errors into sentences.

A verb is a module of :mod:`counterpoise.app.verbs` with two functions::

    def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser: ...
    def run(args: argparse.Namespace) -> int: ...

Only the module of the verb that was asked for is imported, so ``counterpoise decide`` never waits
for Spark, and ``counterpoise --help`` waits for nothing.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from counterpoise import __version__
from counterpoise.app.errors import UserError
from counterpoise.app.loading import loading
from counterpoise.app.output import discard_output
from counterpoise.names.errors import InvalidName
from counterpoise.names.options import ConfigError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_INTERNAL = 1
EXIT_USER = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verb:
    """One word after ``counterpoise``: where it lives, and its line in ``--help``."""

    name: str
    module: str
    summary: str


VERBS: tuple[Verb, ...] = (
    Verb("up", "counterpoise.app.verbs.up", "start a local cluster and leave it running"),
    Verb("demo", "counterpoise.app.verbs.demo", "watch an uneven cluster become even"),
    Verb("broker", "counterpoise.app.verbs.broker", "run one broker"),
    Verb("watch", "counterpoise.app.verbs.watch", "keep a cluster's history"),
    Verb("watchdog", "counterpoise.app.verbs.watchdog", "what is wrong with a cluster"),
    Verb("advise", "counterpoise.app.verbs.advise", "a plan: what to move, and at what cost"),
    Verb("balance", "counterpoise.app.verbs.balance", "watch a cluster and balance it, on Spark"),
    Verb("status", "counterpoise.app.verbs.status", "what a balancer is doing"),
    Verb("control", "counterpoise.app.verbs.control", "pause, resume or stop a balancer"),
    Verb("brokers", "counterpoise.app.verbs.brokers", "the brokers, and what each carries"),
    Verb("bundles", "counterpoise.app.verbs.bundles", "where each bundle is, what it carries"),
    Verb("topics", "counterpoise.app.verbs.topics", "where each topic is, what passes through it"),
    Verb("unload", "counterpoise.app.verbs.unload", "hand a bundle to another broker"),
    Verb("split", "counterpoise.app.verbs.split", "cut a bundle in two"),
    Verb("drain", "counterpoise.app.verbs.drain", "empty a broker before it is stopped"),
    Verb("refill", "counterpoise.app.verbs.refill", "give load to a broker that has too little"),
    Verb("backtest", "counterpoise.app.verbs.backtest", "try strategies on recorded load"),
    Verb("history", "counterpoise.app.verbs.history", "check, repair or export a history"),
    Verb("decide", "counterpoise.app.verbs.decide", "ask a strategy what it would do, and why"),
    Verb(
        "verify-storage",
        "counterpoise.app.verbs.verify_storage",
        "check stored messages for damage",
    ),
    Verb("console", "counterpoise.app.verbs.console", "a web page about a cluster"),
    Verb("top", "counterpoise.app.verbs.top", "watch which limits throttle whom"),
    Verb("doctor", "counterpoise.app.verbs.doctor", "check a broker.conf for traps"),
    Verb("completion", "counterpoise.app.verbs.completion", "complete verbs in your shell"),
)

EPILOG = """\
examples:
  counterpoise up --brokers 3                   a local cluster; Ctrl-C stops all of it
  counterpoise demo                             load, imbalance, decisions, live
  counterpoise advise --admin-url URL           what would be moved on that cluster, and why
  counterpoise doctor --conf broker.conf        what that configuration will really do

Each verb has its own --help with examples.
"""


class VerbModule(Protocol):
    """What the module of a verb offers."""

    def add_parser(self, subparsers: Subparsers) -> argparse.ArgumentParser:
        """Add this verb's parser, options and examples."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the verb's work and give the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``counterpoise``; gives the exit status.

    Status 0 is success, 1 a failure of ours, 2 something the person can put right, 130 Ctrl-C.
    A verb may return other statuses, which its ``--help`` names.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser, modules = _parser(words)
    args, left = parser.parse_known_args(words)
    if left:
        _refuse(left, args.verb, parser)
    if args.verb is None:
        parser.print_help()
        return EXIT_USER
    try:
        return modules[args.verb].run(args)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`counterpoise ... | head`).
        discard_output()
        return EXIT_INTERNAL
    except (UserError, InvalidName, ConfigError) as error:
        _complain(str(error))
        return EXIT_USER
    except Exception as error:
        if args.traceback:
            traceback.print_exc()
        _complain(
            f"internal error in '{args.verb}': {type(error).__name__}: {error}"
            + ("" if args.traceback else " (counterpoise --traceback shows where)")
        )
        return EXIT_INTERNAL


def _refuse(words: Sequence[str], verb: str | None, parser: argparse.ArgumentParser) -> NoReturn:
    """End with what a verb does not know, its own usage, and what was meant perhaps."""
    known = parser
    if verb is not None:
        _, subparsers = _frame()
        known = _module(next(each for each in VERBS if each.name == verb)).add_parser(subparsers)
    import difflib
    import re

    names = re.findall(r"--[a-z][a-z-]+", known.format_usage())
    near = difflib.get_close_matches(words[0].partition("=")[0], names, n=1)
    advice = f"; did you mean {near[0]}?" if near else ""
    known.error(f"unrecognized arguments: {' '.join(words)}{advice}")


def full_parser() -> argparse.ArgumentParser:
    """The parser with every verb and all its options, for what completes them in a shell."""
    parser, subparsers = _frame()
    for verb in VERBS:
        _module(verb).add_parser(subparsers)
    return parser


def _parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, dict[str, VerbModule]]:
    parser, subparsers = _frame()
    asked = next((word for word in words if not word.startswith("-")), None)
    begins_with_one = any(verb.name == word for verb in VERBS for word in words[:1])
    modules: dict[str, VerbModule] = {}
    for verb in VERBS:
        if verb.name == asked:
            modules[verb.name] = _module(verb)
            modules[verb.name].add_parser(subparsers)
        elif not begins_with_one:
            # Each takes a millisecond, and who begins with a verb is shown no list of them.
            subparsers.add_parser(verb.name, help=verb.summary)
    return parser, modules


def _module(verb: Verb) -> VerbModule:
    with loading():
        return cast("VerbModule", importlib.import_module(verb.module))


def _frame() -> tuple[argparse.ArgumentParser, Subparsers]:
    parser = argparse.ArgumentParser(
        prog="counterpoise",
        description="Apache Pulsar's broker load balancing: a cluster to test with, a balancer.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"counterpoise {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="show where in the program an error arose"
    )
    return parser, parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")


def _complain(sentence: str) -> None:
    sys.stderr.write(f"counterpoise: {sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
