"""A broker's current settings: those of its start, and later dynamic changes.

Some of Pulsar's settings are dynamic: an administrator changes them for all brokers at once. Code
that needs a setting reads `LiveSettings.config` at that moment; code that has to act on a change
subscribes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from types import MappingProxyType
from typing import Final, TypeVar

from counterpoise.broker.base import paths
from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.config import BrokerConfig, check_supported
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.metadata import MetadataStore, Notification, StoreUnavailable
from counterpoise.metadata.listeners import follow
from counterpoise.names.callbacks import Notify, StopListening
from counterpoise.names.options import ConfigError, with_dynamic

log = logging.getLogger(__name__)

T = TypeVar("T")


RETRY_S: Final = 1.0


def _is_of(config: BrokerConfig, name: str, kind: type[object]) -> bool:
    return isinstance(getattr(config, name), kind)


class LiveSettings:
    """A broker's settings, which follow the cluster's dynamic configuration."""

    def __init__(self, started: BrokerConfig, store: MetadataStore, policies: Policies) -> None:
        """``started``: the settings from the broker's file and command line."""
        self._started = started
        self._store = store
        self._policies = policies
        self._listeners: list[Notify] = []
        self._news = asyncio.Event()
        self._leave: StopListening | None = None
        self.config: BrokerConfig = started
        """The settings in force now."""
        self.changed: Mapping[str, str] = MappingProxyType({})
        """The dynamic settings that were changed, as text by name, whether brokers read them or
        not."""

    async def start(self, background: BackgroundTasks) -> None:
        """Read the dynamic settings, and follow their changes; raises `StoreUnavailable`."""
        self._leave = follow(self._store, self._on_change, lambda _: self._news.set())
        await self.refresh()
        background.keep("the dynamic configuration", self._follow)

    def options(self, kind: type[T]) -> Callable[[], T]:
        """A callable that returns the options of one class as they are at each call."""
        (name,) = (it.name for it in fields(self._started) if _is_of(self._started, it.name, kind))
        read = attrgetter(name)

        def now() -> T:
            found: T = read(self.config)
            return found

        return now

    def close(self) -> None:
        """Stop following the dynamic configuration."""
        if self._leave is not None:
            self._leave()
        self._listeners.clear()

    def subscribe(self, listener: Notify) -> StopListening:
        """Call ``listener`` after each change of a setting; returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def check(self, name: str, value: str) -> None:
        """Raise `ConfigError` if this broker could not run with a setting's new value."""
        check_supported(with_dynamic(self._started, {**self.changed, name: value}), self._started)

    async def refresh(self) -> None:
        """Read and apply the dynamic settings now; raises `StoreUnavailable`."""
        found = await self._policies.dynamic_settings()
        if found == self.changed:
            return
        usable = {name: value for name, value in found.items() if self._is_usable(name, value)}
        self.config = with_dynamic(self._started, usable)
        before, self.changed = self.changed, MappingProxyType(found)
        for name in sorted({*before, *found}):
            if before.get(name) != found.get(name):
                now = repr(found[name]) if name in found else "the value it was started with"
                log.info("dynamic configuration: %s is now %s", name, now)
        for listener in [*self._listeners]:
            listener()

    def _is_usable(self, name: str, value: str) -> bool:
        try:
            check_supported(with_dynamic(self._started, {name: value}), self._started)
        except ConfigError as error:
            # The admin API refuses such a value, but another program may have written it.
            log.warning("dynamic configuration: ignored: %s", error)
            return False
        return True

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.refresh()
            except StoreUnavailable as error:
                log.warning("dynamic configuration: not read: %s", error)
                await asyncio.sleep(RETRY_S)
                self._news.set()

    def _on_change(self, notification: Notification) -> None:
        if notification.path == paths.DYNAMIC_SETTINGS:
            self._news.set()
