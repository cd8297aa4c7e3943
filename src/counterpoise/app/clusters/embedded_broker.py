"""One broker of an embedded cluster, as a test uses it."""

from counterpoise.broker.broker import Broker
from counterpoise.storage.disk_faults import DiskFaults


class EmbeddedBroker:
    """One broker of an embedded cluster; its addresses stay the same while it lives."""

    def __init__(self, broker: Broker, disk: DiskFaults) -> None:
        self.disk = disk
        """Faults of the broker's disk, which a test can set."""
        self.running = broker
        """The broker itself, to be used on its event loop alone; not a stable API for tests."""
        self.id: str = broker.id
        """``host:webPort``, as Pulsar names brokers."""
        self.service_url: str = broker.service_url
        """``pulsar://host:port`` of this broker alone; ``pulsar+ssl://`` without a plain port."""
        self.service_url_tls: str | None = broker.addresses.service_url_tls
        """``pulsar+ssl://host:port`` of this broker alone, if it speaks TLS."""
        self.admin_url: str = broker.web_url
        """``http://host:port`` of its admin API; ``https://`` without a plain port."""
        self.admin_url_tls: str | None = broker.addresses.web_url_tls
        """``https://host:port`` of its admin API, if it speaks TLS."""
        self.alive = True
        """False once it was stopped or killed."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the cluster."""
        return self.alive and self.running.is_leader

    @property
    def bundles(self) -> list[str]:
        """The bundles that this broker owns, ``tenant/namespace/0x…_0x…``, sorted."""
        return [str(each) for each in self.running.namespaces.owned()] if self.alive else []

    def __repr__(self) -> str:
        state = "" if self.alive else ", gone"
        return f"<broker {self.id}{state}>"
