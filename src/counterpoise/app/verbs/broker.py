"""``counterpoise broker``: one broker process."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from counterpoise.app.conf import add_conf_arguments, read_conf, settings_from
from counterpoise.app.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from counterpoise.app.main import Subparsers
    from counterpoise.app.processes import ChildSpec
    from counterpoise.app.supervisor import LeaderProgram
    from counterpoise.broker.broker import Broker
    from counterpoise.broker.config import BrokerConfig
    from counterpoise.broker.live import LiveSettings

T = TypeVar("T")

READY = "ready"
"""The first word of the line on standard output that says a broker serves."""

_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000

EPILOG = """\
examples:
  counterpoise broker --set metadataStoreUrl=zk:127.0.0.1:2181 --data /var/lib/counterpoise
      joins (or founds) the cluster on that ZooKeeper
  counterpoise broker --conf broker.conf --set webServicePort=0 --set brokerServicePort=0
      reads Apache Pulsar's broker.conf; port 0 takes a free one

When clients may connect, one line is printed: the word ready and a JSON object with id,
service_url and admin_url. Messages go to files below --data, which all brokers of a cluster
share, or to the store that ledgerStoreUrl names; without either they live in memory and are gone
with the broker.
SIGTERM and Ctrl-C hand every bundle to another broker first.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``broker`` and its options."""
    parser = subparsers.add_parser(
        "broker",
        help="run one broker",
        description="Run one broker of a Pulsar cluster until SIGTERM or Ctrl-C.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_conf_arguments(parser)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where the cluster's messages are stored; short for --set ledgerStoreUrl=file:///DIR",
    )
    parser.add_argument(
        "--balance",
        type=Path,
        metavar="DIR",
        help="while it leads, run 'counterpoise balance --execute' with its history in DIR; the "
        "brokers then shed no load by themselves (loadBalancerSheddingEnabled=false)",
    )
    parser.add_argument(
        "--balance-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="an option for that balancer, such as --balance-option=--interval=1s; repeatable",
    )
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="how much to log on standard error (default warning)",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from counterpoise.app.descriptors import raised_limit, within
    from counterpoise.app.loop_thread import loop_factory
    from counterpoise.app.wiring import shedding_by_others, with_own_shedder
    from counterpoise.broker.config import BrokerConfig

    logging.basicConfig(
        level=args.log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    properties = read_conf(args.conf, args.settings)
    config = with_own_shedder(settings_from(BrokerConfig, properties), properties)
    if args.balance is not None:
        config = shedding_by_others(config)
    _warn(properties.values, args.conf, config)
    config = within(config, raised_limit())
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(args, config))
    return 0


def _warn(values: Mapping[str, str], conf: str | None, config: BrokerConfig) -> None:
    """Log which settings are accepted and do nothing, and which no program knows."""
    from counterpoise.app.settings.accepted import warnings
    from counterpoise.app.wiring import own_settings

    for sentence in warnings(values, conf, own_settings(config)):
        logging.getLogger(__name__).warning(sentence)


async def _serve(args: argparse.Namespace, config: BrokerConfig) -> None:
    from counterpoise.app.supervisor import LeaderProgram
    from counterpoise.app.wiring import make_broker
    from counterpoise.metadata import MetadataError
    from counterpoise.storage.open import InvalidLedgerUrl, file_url, open_ledgers

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    balancer = LeaderProgram(lambda: _balancer(args, broker)) if args.balance else None
    storage = config.storage
    if args.data is not None:
        storage = replace(storage, url=file_url(args.data))
    try:
        ledgers = open_ledgers(storage)
        on_leadership = balancer.on_leadership if balancer is not None else None
        made = await _unless_stopping(
            stopping, make_broker(config, ledgers=ledgers, on_leadership=on_leadership)
        )
        if made is None or not await _unless_stopping(stopping, _started(made)):
            return
        broker = made
    except InvalidLedgerUrl as error:
        raise UserError(f"ledgerStoreUrl: {error}") from None
    except MetadataError as error:
        raise UserError(f"metadataStoreUrl={config.metadata_store_url}: {error}") from None
    except OSError as error:
        raise UserError(_why_not_bound(config, error)) from None
    if balancer is not None:
        balancer.start()
        broker.live.subscribe(_restarting(balancer, broker))
    addresses = {"id": broker.id, "service_url": broker.service_url, "admin_url": broker.web_url}
    collect_seldom()
    sys.stdout.write(f"{READY} {json.dumps(addresses)}\n")
    sys.stdout.flush()
    by_administrator = asyncio.create_task(broker.stop_requested.wait())
    by_administrator.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    if balancer is not None:
        await balancer.stop()
    await broker.stop()


async def _started(broker: Broker) -> bool:
    await broker.start()
    return True


async def _unless_stopping(stopping: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``work``; None, and it is cancelled, when a stop is requested first.

    A metadata store that does not answer is waited for until the operator gives up.
    """
    working, stop = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((working, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not working.done():
        working.cancel()
        await asyncio.wait([working])
        return None
    return working.result()


def collect_seldom() -> None:
    """Look for cycles now, leave out of later searches what stays, and search seldom.

    A message makes a handful of tuples that no cycle holds; by default every few hundred of them
    set off a search.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def _restarting(balancer: LeaderProgram, broker: Broker) -> Callable[[LiveSettings], None]:
    """A callback that restarts the balancer when a setting that it reads has changed."""
    from counterpoise.app.settings.table import read_by_balancer

    before: Mapping[str, str] = dict(broker.live.changed)

    def changed(live: LiveSettings) -> None:
        nonlocal before
        now = dict(live.changed)
        names = {name for name in {*before, *now} if before.get(name) != now.get(name)}
        before = now
        if any(map(read_by_balancer, names)):
            balancer.restart()

    return changed


def _balancer(args: argparse.Namespace, broker: Broker) -> ChildSpec:
    from counterpoise.app.processes import ChildSpec

    history: Path = args.balance
    return ChildSpec(
        name="balancer",
        argv=[
            *(sys.executable, "-m", "counterpoise.app.main", "balance", "--execute"),
            *("--admin-url", _asked_at(broker), "--history", str(history)),
            # The former leader's balancer may take a moment to release the history.
            *("--wait-for-history", "60s"),
            *(["--conf", args.conf] if args.conf else []),
            *(f"--set={each}" for each in args.settings),
            # The cluster's word on shedding is about its brokers: while they shed, it waits.
            *(
                f"--set={name}={value}"
                for name, value in broker.live.changed.items()
                if name != "loadBalancerSheddingEnabled"
            ),
            *args.balance_option,
        ],
        is_ready=lambda _: True,
        log=history / "balancer.log",
        # A round that is cut off is taken up again by the next balancer on this history.
        stop_within_s=5.0,
    )


def _asked_at(broker: Broker) -> str:
    """Where programs of this cluster ask a broker, as brokers ask each other."""
    tls = broker.addresses.web_url_tls
    return tls if tls is not None and broker.config.client.tls else broker.web_url


def _why_not_bound(config: BrokerConfig, error: OSError) -> str:
    return (
        f"cannot serve on {config.bind_address}: {error.strerror or error}; choose other ports "
        f"with --set brokerServicePort=… (now {config.broker_service_port}) and "
        f"--set webServicePort=… (now {config.web_service_port}), 0 for free ones."
    )
