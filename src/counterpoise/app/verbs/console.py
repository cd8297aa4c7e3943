"""``counterpoise console``: a web page about a cluster."""

import argparse
import asyncio
import json
import logging
import socket
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from counterpoise.app import strategies
from counterpoise.app.addresses import admin_urls
from counterpoise.app.arguments.rules import refuse_idle
from counterpoise.app.client import client_security
from counterpoise.app.conf import given_conf, settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.fleet_file import read_fleet
from counterpoise.app.signals import until_signal
from counterpoise.console.fleet_page import FleetPageOptions, serve_fleet
from counterpoise.console.history_reader import HistoryReader
from counterpoise.console.options import ConsoleOptions, WatchOptions
from counterpoise.console.serve import serve
from counterpoise.decide.balancing.drain import DrainRules
from counterpoise.decide.balancing.round import BalancingStrategy
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import open_location
from counterpoise.security.client import ClientSecurity

NOTHING = Properties()
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(args: argparse.Namespace) -> int:
    """Run ``console``: serve the web page until SIGTERM or Ctrl-C."""
    if args.every <= 0:
        raise UserError(f"--every {args.every:g}: must be more than 0")
    if args.fleet is not None:
        return _serve_fleet(args)
    if args.admin_url is None:
        raise UserError("name one of them: --admin-url URL, or --fleet FILE")
    addresses = admin_urls(args.admin_url)
    for path in args.backtests:
        if not Path(path).is_file():
            raise UserError(f"--backtests {path}: there is no such file")
    own = given_conf(args.conf, args.settings)
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)-7s %(name)s %(message)s")
    options = ConsoleOptions(
        watch=WatchOptions(addresses, args.every, security=_security(args)),
        strategy=partial(strategy_of, own=own),
        drain_rules=partial(drain_rules_of, own=own),
        names=args.name,
        backtests=args.backtests,
        history=args.history or "",
        acts=args.acts or args.host in LOOPBACK,
    )
    reader = _reader(args.history) if args.history else None
    listening = _listen(args.host, args.port)
    announce = partial(_announce, _address(listening), as_json=args.json)
    asyncio.run(until_signal(partial(serve, listening, options, reader, wall_clock_ms, announce)))
    return 0


def _serve_fleet(args: argparse.Namespace) -> int:
    refuse_idle(args, args.idle_with_fleet, "with --fleet, whose file names each cluster's own")
    fleet = read_fleet(args.fleet)
    listening = _listen(args.host, args.port)
    options = FleetPageOptions(args.every, args.within, args.name)
    announce = partial(_announce, _address(listening), as_json=args.json)
    asyncio.run(
        until_signal(partial(serve_fleet, listening, fleet, options, wall_clock_ms, announce))
    )
    return 0


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def strategy_of(
    settings: Mapping[str, str], own: Properties = NOTHING
) -> tuple[BalancingStrategy, str]:
    """Return the strategy by which a console advises, and a sentence about the choice.

    It is made from the cluster's `settings`, which the console's own (``own``) override. If they
    are invalid, it is Pulsar's default shedder with its defaults.
    """
    running = strategies.as_load_manager_reads(Properties(settings))
    known = _known({**running.values, **own.values})
    try:
        chosen = strategies.strategy_from(known)
    except (UserError, ConfigError) as error:
        chosen = strategies.strategy_from(Properties({}), shedder=strategies.DEFAULT_SHEDDER)
        return chosen, f"Advice by {chosen.shedder.name} with its defaults, since {error}."
    return chosen, f"Advice by {chosen.shedder.name} with the cluster's settings; nothing is moved."


def drain_rules_of(settings: Mapping[str, str], own: Properties = NOTHING) -> DrainRules:
    """Return the rules by which the console drains a broker.

    They are made from the cluster's `settings`, which ``own`` overrides; the defaults if these are
    invalid.
    """
    placement = strategies.find_placement(LeastUsage.name)
    try:
        conf = _known({**settings, **own.values})
        return DrainRules(
            placement, settings_from(placement.options, conf), settings_from(FilterOptions, conf)
        )
    except ConfigError:
        return DrainRules()


def _known(settings: Mapping[str, str]) -> Properties:
    """Return the settings with the shedder's Java class shortened to its name without package."""
    names = (strategies.SHEDDER_SETTING,)
    short = {name: settings[name].rpartition(".")[2] for name in names if name in settings}
    return Properties({**settings, **short})


def _security(args: argparse.Namespace) -> ClientSecurity:
    if args.token_file is not None:
        if args.auth_plugin is not None or args.auth_params is not None:
            raise UserError("--token-file and --auth-params say the same: give one of them")
        args.auth_plugin = "token"
        args.auth_params = Path(args.token_file).absolute().as_uri()
    return client_security(args)


def _reader(uri: str) -> HistoryReader:
    try:
        return HistoryReader(TablesReader(open_location(uri)))
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from None


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}:{port}: {error}") from None


def _announce(url: str, *, as_json: bool) -> None:
    sys.stdout.write(json.dumps({"console_url": url}) + "\n" if as_json else f"console at {url}\n")
    sys.stdout.flush()
