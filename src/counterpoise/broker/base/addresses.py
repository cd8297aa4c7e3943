"""The addresses that a broker advertises."""

from dataclasses import dataclass, field
from typing import Self

from counterpoise.broker.base.advertised import Listeners
from counterpoise.load.report import LocalBrokerData


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses that a broker advertises; None where it has no such port."""

    broker_id: str
    """``host:webPort``, the TLS port where there is no plain one."""
    service_url: str | None = None
    """For clients, ``pulsar://host:port``; None: the broker has no such port."""
    service_url_tls: str | None = None
    """For clients, ``pulsar+ssl://host:port``; None: the broker has no such port."""
    web_url: str | None = None
    """Of the admin API, ``http://host:port``; None: the broker has no such port."""
    web_url_tls: str | None = None
    """Of the admin API, ``https://host:port``; None: the broker has no such port."""
    listeners: Listeners = field(default_factory=dict, hash=False)
    """The addresses for clients that name an advertised listener, by its name."""

    @classmethod
    def of_report(cls, broker_id: str, report: LocalBrokerData) -> Self:
        """The addresses of a broker by its registration."""
        return cls(
            broker_id,
            report.pulsar_service_url,
            report.pulsar_service_url_tls,
            report.web_service_url,
            report.web_service_url_tls,
            report.advertised_listeners,
        )

    @property
    def service(self) -> str:
        """The URL to which clients connect: the plain one, or else the TLS one."""
        return self.service_url or self.service_url_tls or ""

    @property
    def web(self) -> str:
        """The URL of the admin API: the plain one, or else the TLS one."""
        return self.web_url or self.web_url_tls or ""

    def for_brokers(self, *, tls: bool) -> str:
        """The URL to which other brokers connect; with ``tls`` the TLS one if there is one."""
        return self.service_url_tls if tls and self.service_url_tls is not None else self.service
