"""The command line: finds the verb, runs it, and turns errors into sentences.

Each verb has two modules of its name. The one in :mod:`counterpoise.app.arguments` declares
``DESCRIPTION``, ``EPILOG`` and ``add_arguments(parser)``; the one in :mod:`counterpoise.app.verbs`
has ``run(args) -> int``, the exit status, and imports at its top whatever the verb needs.

Only what a command line needs is imported: ``counterpoise --help`` imports neither module of any
verb, and the help of a verb only the first. A package that is missing is reported in `Verb.run`.
"""

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from counterpoise import __version__
from counterpoise.app.loading import loading
from counterpoise.app.output import discard_output, one_line, plain_output
from counterpoise.app.packages import needed_by
from counterpoise.names.errors import ExplainedError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_INTERNAL = 1
EXIT_USER = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verb:
    """One command of ``counterpoise``, such as ``balance``."""

    name: str
    summary: str
    """The verb's line in ``--help``."""
    extra: str = ""
    """The extra of this package that the verb needs, such as ``console``; empty for none."""

    def arguments(self) -> Any:
        """Import the module that declares the command's arguments."""
        return self._module("arguments")

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status; raises `UserError` for a missing package."""
        with needed_by(f"'counterpoise {self.name}'", self.extra):
            module = self._module("verbs")
        status: int = module.run(args)
        return status

    def _module(self, folder: str) -> Any:
        with loading():
            return importlib.import_module(
                f"counterpoise.app.{folder}.{self.name.replace('-', '_')}"
            )


VERBS: tuple[Verb, ...] = (
    Verb("up", "start a local cluster and leave it running"),
    Verb("demo", "watch an uneven cluster become even", extra="demo"),
    Verb("replay", "repeat what clients of a recorded cluster did"),
    Verb("broker", "run one broker"),
    Verb("watch", "record a cluster's load in a history", extra="pipeline"),
    Verb("watchdog", "find faults of a cluster", extra="pipeline"),
    Verb("advise", "a plan: what to move, and at what cost", extra="pipeline"),
    Verb("balance", "watch a cluster and balance it, on Spark", extra="pipeline"),
    Verb("notify", "test the webhook of a balancer", extra="pipeline"),
    Verb("status", "show what a balancer is doing", extra="pipeline"),
    Verb("control", "pause, resume or stop a balancer", extra="pipeline"),
    Verb("brokers", "the brokers, and what each carries"),
    Verb("bundles", "the bundles, their brokers and loads"),
    Verb("topics", "the topics, their brokers and loads"),
    Verb("unload", "unload a bundle, or move it to a broker"),
    Verb("split", "split a bundle"),
    Verb("drain", "empty a broker before it is stopped", extra="pipeline"),
    Verb("refill", "move bundles to a broker that carries too little", extra="pipeline"),
    Verb("roll", "restart a cluster, broker by broker", extra="pipeline"),
    Verb("backtest", "replay recorded load under strategies", extra="pipeline"),
    Verb("rollup", "roll a history up into its gold tables", extra="pipeline"),
    Verb("report", "a week of a cluster as one page", extra="pipeline"),
    Verb("history", "check, repair or export a history", extra="pipeline"),
    Verb("decide", "ask a strategy for its decisions"),
    Verb("storage", "show ledgers, cursors, entries, orphans in BookKeeper", extra="storage"),
    Verb("verify-storage", "check stored messages for damage"),
    Verb("console", "a web page about a cluster", extra="console"),
    Verb("top", "show which limits throttle which clients"),
    Verb("doctor", "check the settings in a broker.conf"),
    Verb("completion", "complete commands in your shell"),
)

EPILOG = """\
examples:
  counterpoise up --brokers 3                   a local cluster; Ctrl-C stops all of it
  counterpoise demo                             load, imbalance, decisions, live
  counterpoise advise --admin-url URL           what would be moved on that cluster, and why
  counterpoise doctor --conf broker.conf        what that configuration will really do

Each verb has its own --help with examples.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``counterpoise``; returns the exit status.

    0 is success, 1 a failure of the program, 2 something that the user can correct, 130 Ctrl-C. A
    command may return others, which its ``--help`` names.
    """
    with plain_output():
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(words: Sequence[str]) -> int:
    parser = _parser(words)
    args, left = parser.parse_known_args(words)
    if left:
        _refuse(left, args.verb, parser)
    if args.verb is None:
        parser.print_help()
        return EXIT_USER
    try:
        return _verb(args.verb).run(args)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`counterpoise ... | head`).
        discard_output()
        return EXIT_INTERNAL
    except ExplainedError as error:
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
    """Exit with the verb's usage and the arguments it does not know; suggest an option."""
    known = parser if verb is None else _add(_verb(verb), _frame()[1])
    import difflib
    import re

    names = re.findall(r"--[a-z][a-z-]+", known.format_usage())
    near = difflib.get_close_matches(words[0].partition("=")[0], names, n=1)
    advice = f"; did you mean {near[0]}?" if near else ""
    known.error(f"unrecognized arguments: {' '.join(words)}{advice}")


def full_parser() -> argparse.ArgumentParser:
    """Make the parser with every command and all its options, for shell completion."""
    parser, subparsers = _frame()
    for verb in VERBS:
        _add(verb, subparsers)
    return parser


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser, subparsers = _frame()
    verb_name = next((word for word in words if not word.startswith("-")), None)
    begins_with_one = any(verb.name == word for verb in VERBS for word in words[:1])
    for verb in VERBS:
        if verb.name == verb_name:
            _add(verb, subparsers)
        elif not begins_with_one:
            # Not if the line begins with a verb: each takes a millisecond, and the list of verbs is
            # not shown then.
            subparsers.add_parser(verb.name, help=verb.summary)
    return parser


def _verb(name: str) -> Verb:
    return next(each for each in VERBS if each.name == name)


def _add(verb: Verb, subparsers: "Subparsers") -> argparse.ArgumentParser:
    arguments = verb.arguments()
    parser = subparsers.add_parser(
        verb.name,
        help=verb.summary,
        description=arguments.DESCRIPTION,
        epilog=arguments.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_arguments(parser)
    return parser


def _frame() -> "tuple[argparse.ArgumentParser, Subparsers]":
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
    sys.stderr.write(f"counterpoise: {one_line(sentence)}\n")


if __name__ == "__main__":
    sys.exit(main())
