"""Wires a broker: its configuration, metadata session, ledgers and admin API."""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from counterpoise.broker.broker import AdminServer, AdminServerFactory, Broker
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.leadership import LeadershipProgram, no_program
from counterpoise.broker.load import SharedProcess
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.open import open_store
from counterpoise.names.callbacks import SentenceSink
from counterpoise.names.options import Option, all_options, from_conf
from counterpoise.names.properties import Properties
from counterpoise.storage.ledger_store import LedgerStore

if TYPE_CHECKING:
    from counterpoise.admin.rest.faults import FaultControl

log = logging.getLogger(__name__)


async def make_broker(
    config: BrokerConfig,
    *,
    ledgers: LedgerStore,
    tree: MemoryTree | None = None,
    on_leadership: LeadershipProgram | None = None,
    process: SharedProcess | None = None,
    web: AdminServerFactory | None = None,
) -> Broker:
    """Make a broker with a metadata session of its own, ready to be started.

    ``tree`` is the metadata that the brokers of one process share, if it is in ``memory:`` or
    ``sqlite:``. They share ``process``, too, so that each reports its part of the process's usage.
    ``web`` makes the server of the admin API (default: `make_web_server`). If the broker cannot be
    made, its session and ``ledgers`` are closed.
    """
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(ledgers.close)
        metadata = await open_store(
            config.metadata_store_url,
            tree=tree,
            session_timeout_s=config.metadata_store_session_timeout_ms / 1000,
            operation_timeout_s=config.metadata_store_operation_timeout_s,
        )
        undo.push_async_callback(metadata.close)
        made = Broker(
            config,
            metadata=metadata,
            ledgers=ledgers,
            web=web or make_web_server,
            on_leadership=on_leadership or no_program,
            process=process,
        )
        undo.pop_all()
        return made


def make_web_server(broker: Broker, faults: "FaultControl | None" = None) -> AdminServer:
    """Make the HTTP server of a broker's admin API; its modules are imported at the first call."""
    # Imported late: it brings an HTTP library, which many embedded clusters never need.
    from counterpoise.admin.server import WebServer

    return WebServer(broker, known_settings, check_setting, faults)


def known_settings() -> Iterable[Option]:
    """Return every setting that may be changed while brokers run."""
    # Imported late: the settings table imports every package, and a cluster rarely needs it.
    from counterpoise.app.settings.accepted import dynamic_settings

    return dynamic_settings()


def check_setting(name: str, value: str) -> None:
    """Check a dynamic setting's value, of the right type, that the admin API is to accept.

    Raises `ConfigError` for a shedder that is not built in: an operator's own class can only be
    named when a broker is started. Logs a warning for a setting that no broker reads.
    """
    from counterpoise.app.settings.accepted import set_and_unread, warning
    from counterpoise.decide.shedding.registry import SHEDDERS

    if sentence := warning(set_and_unread({name: value})):
        log.warning("dynamic configuration: %s", sentence)
    if name == "loadBalancerLoadSheddingStrategy":
        SHEDDERS.built_in(value)


def config_of(
    settings: Mapping[str, object], defaults: Mapping[str, object] | None = None
) -> BrokerConfig:
    """Make a broker's configuration from settings by Pulsar's names, with Python's values.

    Names of Pulsar's broker.conf that no broker here reads are skipped. Raises :class:`ConfigError`
    for any other name, and for an invalid value.
    """
    known = {each.conf for each in all_options(BrokerConfig)}
    if others := settings.keys() - known:
        # Imported late: the settings table imports every package, and clusters must start fast.
        from counterpoise.app.settings.table import check_names

        check_names(others)
    values = conf_text({**(defaults or {}), **settings})
    return with_own_shedder(from_conf(BrokerConfig, values), Properties(values))


def broker_config(properties: Properties, conf: str | None, warn: SentenceSink) -> BrokerConfig:
    """Make a broker's configuration from ``properties``, which were read from the file ``conf``.

    ``warn`` is called with sentences about settings that have no effect. Raises
    :class:`ConfigError`.
    """
    config = from_conf(BrokerConfig, properties.values, properties.lines)
    config = with_own_shedder(config, properties)
    if properties.values:
        # Imported late: the settings table imports every package, and clusters must start fast.
        from counterpoise.app.settings.accepted import warnings

        for sentence in warnings(properties.values, conf, own_settings(config)):
            warn(sentence)
    return config


def with_own_shedder(config: BrokerConfig, properties: Properties) -> BrokerConfig:
    """Return the configuration with the settings of an operator's own shedder, if it names one."""
    if ":" not in config.shedding.strategy:
        return config
    # Imported late: few configurations name a shedder of their own.
    from counterpoise.app.conf import settings_from
    from counterpoise.app.strategies import find_shedder

    kind = find_shedder(config.shedding.strategy, properties).options
    own = settings_from(kind, properties)
    return replace(config, shedding=replace(config.shedding, own=own))


def own_settings(config: BrokerConfig) -> list[type]:
    """Return the options class of an operator's own shedder; an empty list without one."""
    return [] if config.shedding.own is None else [type(config.shedding.own)]


def shedding_by_others(config: BrokerConfig) -> BrokerConfig:
    """The configuration without shedding by the leader, since a balancer on Spark sheds."""
    balance = replace(config.shedding.balance, shedding_enabled=False)
    return replace(config, shedding=replace(config.shedding, balance=balance))


def shedding_every(config: BrokerConfig, seconds: float) -> BrokerConfig:
    """Return the configuration with a round of shedding every ``seconds``, not whole minutes."""
    balance = replace(config.shedding.balance, interval_ms=round(seconds * 1000))
    return replace(config, shedding=replace(config.shedding, balance=balance))


def conf_text(settings: Mapping[str, object]) -> dict[str, str]:
    """Convert settings' Python values to broker.conf's text: ``true``, ``a,b``, ``10``."""
    return {name: _text(value) for name, value in settings.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value)
