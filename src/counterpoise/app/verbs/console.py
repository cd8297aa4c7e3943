"""``counterpoise console``: a web page about a cluster."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import socket
import sys
from typing import TYPE_CHECKING

from counterpoise.app.errors import UserError

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers

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
    try:
        from counterpoise.console.serve import ConsoleOptions, serve
    except ImportError as error:
        raise UserError(
            f"the console needs more packages ({error.name} is missing): "
            "pip install 'counterpoise[console]'"
        ) from None
    from counterpoise.console.watch import WatchOptions
    from counterpoise.pipeline.clock import wall_clock_ms

    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)-7s %(name)s %(message)s")
    listening = _listen(args.host, args.port)
    host, port = listening.getsockname()[:2]
    url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    options = ConsoleOptions(WatchOptions(addresses, args.every), names=args.name)
    asyncio.run(serve(listening, options, wall_clock_ms, lambda: _tell(url, as_json=args.json)))
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}:{port}: {error}") from None


def _tell(url: str, *, as_json: bool) -> None:
    sys.stdout.write(json.dumps({"console_url": url}) + "\n" if as_json else f"console at {url}\n")
    sys.stdout.flush()
