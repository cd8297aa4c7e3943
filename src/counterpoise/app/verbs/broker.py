"""``counterpoise broker``: one broker process."""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from counterpoise.app.clusters.balancer_process import balancer_spec
from counterpoise.app.clusters.descriptors import raised_limit, within
from counterpoise.app.clusters.loop_thread import loop_factory
from counterpoise.app.clusters.processes import READY, ChildSpec
from counterpoise.app.clusters.supervisor import LeaderProgram
from counterpoise.app.conf import conf_argv, read_conf
from counterpoise.app.errors import UserError
from counterpoise.app.loading import collect_seldom
from counterpoise.app.packages import needed_by
from counterpoise.app.settings.table import read_by_balancer
from counterpoise.app.wiring import broker_config, make_broker, shedding_by_others
from counterpoise.broker.broker import Broker
from counterpoise.broker.config import BrokerConfig
from counterpoise.metadata import MetadataError
from counterpoise.names.callbacks import Notify
from counterpoise.storage.open import file_url, open_ledgers
from counterpoise.storage.port import StorageError

T = TypeVar("T")


def run(args: argparse.Namespace) -> int:
    """Run ``broker``: serve until SIGTERM or Ctrl-C."""
    logging.basicConfig(
        level=args.log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    properties = read_conf(args.conf, args.settings)
    config = broker_config(properties, args.conf, logging.getLogger(__name__).warning)
    if args.balance is not None:
        config = shedding_by_others(config)
    config = within(config, raised_limit())
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(args, config))
    return 0


async def _serve(args: argparse.Namespace, config: BrokerConfig) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    balancer = LeaderProgram(lambda: _balancer(args, broker)) if args.balance else None
    storage = config.storage
    if args.data is not None:
        storage = replace(storage, url=file_url(args.data))
    try:
        with needed_by(f"ledgerStoreUrl={storage.url}", "storage"):
            ledgers = await _unless_stopping(stopping, open_ledgers(storage))
        if ledgers is None:
            return
        on_leadership = balancer.on_leadership if balancer is not None else None
        made = await _unless_stopping(
            stopping, make_broker(config, ledgers=ledgers, on_leadership=on_leadership)
        )
        if made is None or not await _unless_stopping(stopping, _started(made)):
            return
        broker = made
    except StorageError as error:
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
    """Return the result of ``work``; if ``stopping`` is set first, cancel it and return None.

    So an operator can stop a broker whose metadata store does not respond.
    """
    working, stop = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((working, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not working.done():
        working.cancel()
        await asyncio.wait([working])
        return None
    return working.result()


def _restarting(balancer: LeaderProgram, broker: Broker) -> Notify:
    """Return a callback that restarts the balancer if a dynamic setting that it reads changed."""
    before: Mapping[str, str] = dict(broker.live.changed)

    def changed() -> None:
        nonlocal before
        now = dict(broker.live.changed)
        names = {name for name in {*before, *now} if before.get(name) != now.get(name)}
        before = now
        if any(map(read_by_balancer, names)):
            balancer.restart()

    return changed


def _balancer(args: argparse.Namespace, broker: Broker) -> ChildSpec:
    # The former leader's balancer may take a moment to release the history.
    options = ["--wait-for-history", "60s", *conf_argv(args)]
    # loadBalancerSheddingEnabled is about the brokers' own shedding, so it is not passed on.
    options += [
        f"--set={name}={value}"
        for name, value in broker.live.changed.items()
        if name != "loadBalancerSheddingEnabled"
    ]
    return balancer_spec(_asked_at(broker), args.balance, [*options, *args.balance_option])


def _asked_at(broker: Broker) -> str:
    """The admin URL by which the balancer asks this broker; HTTPS if brokers use TLS themselves."""
    tls = broker.addresses.web_url_tls
    return tls if tls is not None and broker.config.client.tls else broker.web_url


def _why_not_bound(config: BrokerConfig, error: OSError) -> str:
    return (
        f"cannot serve on {config.bind_address}: {error.strerror or error}; choose other ports "
        f"with --set brokerServicePort=… (now {config.broker_service_port}) and "
        f"--set webServicePort=… (now {config.web_service_port}), 0 for free ones."
    )
