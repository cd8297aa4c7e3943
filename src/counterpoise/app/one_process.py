"""A local cluster in one process that keeps its data: no ZooKeeper, no Spark, no Java."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from counterpoise import Cluster, EmbeddedBroker
from counterpoise.app.processes import Child, ChildSpec
from counterpoise.storage.open import file_url

METADATA_FILE = "metadata.db"


@dataclass(frozen=True, slots=True)
class OneProcessOptions:
    """What the cluster is made of."""

    brokers: int = 3
    data: Path | None = None
    """Directory for messages, metadata and history; None: a temporary one."""
    metadata_url: str | None = None
    """``sqlite:///file``; None: a file in ``data``."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the brokers under broker.conf's names."""
    balance_every_s: float | None = None
    """Seconds between two rounds of the leader's shedding; None: bundles stay where they are."""
    spark: bool = False
    """Whether a balancer on Spark runs beside it."""
    balance_options: Sequence[str] = ()
    """Options for that one, as ``counterpoise balance`` takes them."""
    first_port: int = 0
    first_web_port: int = 0


class OneProcessCluster:
    """Starts the brokers on a thread of this process; what they keep is in files."""

    def __init__(self, options: OneProcessOptions) -> None:
        self.options = options
        self.data = Path()
        self.metadata_url = ""
        self._cluster: Cluster | None = None
        self._stack = contextlib.ExitStack()

    @property
    def history(self) -> Path:
        """Where a balancer on Spark keeps its history."""
        return self.data / "history"

    @property
    def brokers(self) -> list[EmbeddedBroker]:
        """The brokers in the order of starting."""
        return self._running.brokers

    @property
    def service_url(self) -> str:
        """What a client connects to."""
        return self._running.service_url

    @property
    def admin_url(self) -> str:
        """The admin API of the first broker."""
        return self._running.admin_url

    def start(self) -> None:
        """Start all of it; returns when clients may connect."""
        options = self.options
        with contextlib.ExitStack() as undo:
            if options.data is not None:
                options.data.mkdir(parents=True, exist_ok=True)
                self.data = options.data.resolve()
            else:
                temporary = tempfile.TemporaryDirectory(prefix="counterpoise-")
                self.data = Path(undo.enter_context(temporary))
            kept = file_url(self.data / METADATA_FILE).replace("file:", "sqlite:", 1)
            self.metadata_url = options.metadata_url or kept
            config = {
                "metadataStoreUrl": self.metadata_url,
                "ledgerStoreUrl": file_url(self.data / "messages"),
                "brokerServicePort": str(options.first_port),
                "webServicePort": str(options.first_web_port),
                **_known(options.settings),
                # Two who move bundles would undo each other's work.
                **({"loadBalancerSheddingEnabled": "false"} if options.spark else {}),
            }
            self._cluster = Cluster(
                options.brokers, config=config, balance_every_s=options.balance_every_s
            )
            undo.callback(self._stop_cluster)
            self._cluster.start()
            if options.spark:
                undo.callback(self._balancer().stop)
            self._stack = undo.pop_all()

    def stop(self) -> None:
        """Close every topic, save every acknowledgement, and end."""
        self._stack.close()

    @property
    def _running(self) -> Cluster:
        if self._cluster is None:
            raise RuntimeError("the cluster does not run")
        return self._cluster

    def _stop_cluster(self) -> None:
        try:
            self._running.stop(orderly=True)
        except TimeoutError:
            logging.getLogger(__name__).warning(
                "not everything closed in time; what was acknowledged is stored all the same"
            )

    def _balancer(self) -> Child:
        argv = [sys.executable, "-m", "counterpoise.app.main", "balance", "--execute"]
        argv += ["--admin-url", self.admin_url, "--history", str(self.history)]
        return Child(
            ChildSpec(
                name="balancer",
                argv=[*argv, *self.options.balance_options],
                is_ready=lambda _: True,
                log=self.history / "balancer.log",
                stop_within_s=5.0,
            )
        )


def _known(settings: Mapping[str, str]) -> dict[str, str]:
    """Without what a broker.conf may hold for other programs."""
    if not settings:
        return {}
    # Only then: the table imports every room, and a cluster should start at once.
    from counterpoise.app.settings.table import known_names

    return {name: value for name, value in settings.items() if name in known_names()}
