"""``counterpoise console``: a web page about a cluster."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.app.conf import settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.strategies import (
    DEFAULT_SHEDDER,
    SHEDDER_SETTING,
    find_placement,
    strategy_from,
)
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.round import Strategy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.console.rounds import Reader

LOOPBACK = ("127.0.0.1", "::1", "localhost")

EPILOG = """\
examples:
  counterpoise console --admin-url http://127.0.0.1:8080
      a page about the cluster of that broker, ours or Apache Pulsar's
  counterpoise console --admin-url http://broker-1:8080,http://broker-2:8080 --port 8000
      several addresses are tried in turn

Everything comes from the admin API. The page needs no other network: nothing is loaded from
elsewhere. Ctrl-C or SIGTERM ends it.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``console`` and its options."""
    parser = subparsers.add_parser(
        "console",
        help="a web page about a cluster",
        description="Serve a page that shows a cluster's brokers, bundles and decisions, live.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--admin-url",
        required=True,
        metavar="URL",
        help="admin address of any broker; several, separated by commas, are tried in turn",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: free)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a name under which browsers may ask for the page, besides addresses and localhost",
    )
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="between two looks (2)"
    )
    parser.add_argument(
        "--history",
        default="",
        metavar="URI",
        help="the history of a balancer of that cluster, whose rounds are shown",
    )
    parser.add_argument(
        "--backtests",
        action="append",
        default=[],
        metavar="FILE",
        help="results of 'counterpoise backtest --json' to compare; may be repeated",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="a token to show to the brokers, as Pulsar's own tools take it",
    )
    parser.add_argument(
        "--acts",
        action="store_true",
        help="let whoever opens the page act with that token (only so by itself on loopback)",
    )
    parser.add_argument("--json", action="store_true", help="tell the address as one JSON line")
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve the page until told to stop."""
    addresses = tuple(url.strip() for url in args.admin_url.split(",") if url.strip())
    for url in addresses or (args.admin_url,):
        if not url.startswith("http://"):
            raise UserError(f"--admin-url {url}: expected http://host:port")
    if args.every <= 0:
        raise UserError(f"--every {args.every:g}: must be more than 0")
    for path in args.backtests:
        if not Path(path).is_file():
            raise UserError(f"--backtests {path}: there is no such file")
    try:
        from counterpoise.console.options import ConsoleOptions, WatchOptions
        from counterpoise.console.serve import serve
    except ImportError as error:
        raise UserError(
            f"the console needs more packages ({error.name} is missing): "
            "pip install 'counterpoise[console]'"
        ) from None
    from counterpoise.pipeline.clock import wall_clock_ms

    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)-7s %(name)s %(message)s")
    options = ConsoleOptions(
        watch=WatchOptions(addresses, args.every, token=_token(args.token_file)),
        strategy=strategy_of,
        drain_rules=drain_rules_of,
        names=args.name,
        history=args.history,
        backtests=args.backtests,
        acts=args.acts or args.host in LOOPBACK,
    )
    reader = _reader(args.history) if args.history else None
    listening = _listen(args.host, args.port)
    host, port = listening.getsockname()[:2]
    url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    asyncio.run(
        serve(listening, options, reader, wall_clock_ms, lambda: _tell(url, as_json=args.json))
    )
    return 0


def strategy_of(settings: Mapping[str, str]) -> tuple[Strategy, str]:
    """The strategy that a cluster's settings name, and what is to be said of the choice."""
    known = _known(settings)
    try:
        chosen = strategy_from(known)
    except (UserError, ConfigError) as error:
        chosen = strategy_from(Properties({}), shedder=DEFAULT_SHEDDER)
        return chosen, f"Advice by {chosen.shedder.name} with its defaults, since {error}."
    return chosen, f"Advice by {chosen.shedder.name} with the cluster's settings; nothing is moved."


def drain_rules_of(settings: Mapping[str, str]) -> DrainRules:
    """The rules by which a broker is drained, with a cluster's settings where they are sound."""
    placement = find_placement(LeastUsage.name)
    try:
        conf = _known(settings)
        return DrainRules(
            placement, settings_from(placement.options, conf), settings_from(FilterOptions, conf)
        )
    except ConfigError:
        return DrainRules()


def _known(settings: Mapping[str, str]) -> Properties:
    """Without the packages that Pulsar's settings name strategies with."""
    names = (SHEDDER_SETTING,)
    short = {name: settings[name].rpartition(".")[2] for name in names if name in settings}
    return Properties({**settings, **short})


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {path}: {error}") from None


def _reader(uri: str) -> Reader:
    try:
        from counterpoise.console.kept import HistoryReader
        from counterpoise.pipeline.history.store import open_store
    except ImportError as error:
        raise UserError(
            f"a history needs pyarrow ({error.name} is missing): "
            "pip install 'counterpoise[pipeline]'"
        ) from None
    try:
        return HistoryReader(open_store(uri))
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from None


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}:{port}: {error}") from None


def _tell(url: str, *, as_json: bool) -> None:
    sys.stdout.write(json.dumps({"console_url": url}) + "\n" if as_json else f"console at {url}\n")
    sys.stdout.flush()
