"""The addresses that a broker advertises."""

from __future__ import annotations

from dataclasses import dataclass, field

from counterpoise.broker.base.advertised import Listeners


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses that a broker advertises; None where it has no such port."""

    broker_id: str
    """``host:webPort``, the TLS port where there is no plain one."""
    service_url: str | None = None
    """``pulsar://host:port``."""
    service_url_tls: str | None = None
    """``pulsar+ssl://host:port``."""
    web_url: str | None = None
    """``http://host:port``."""
    web_url_tls: str | None = None
    """``https://host:port``."""
    listeners: Listeners = field(default_factory=dict, hash=False)
    """The addresses for clients that name a listener."""

    @property
    def service(self) -> str:
        """Where clients connect: the plain URL, or the TLS one if there is no other."""
        return self.service_url or self.service_url_tls or ""

    @property
    def web(self) -> str:
        """The admin API: the plain URL, or the TLS one if there is no other."""
        return self.web_url or self.web_url_tls or ""

    def for_brokers(self, *, tls: bool) -> str:
        """Where other brokers connect; ``tls``: by TLS if there is such a port."""
        return self.service_url_tls if tls and self.service_url_tls is not None else self.service
