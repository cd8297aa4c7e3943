"""A local cluster in one process that keeps its data: no ZooKeeper, no Spark, no Java."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path

from counterpoise import Cluster, EmbeddedBroker
from counterpoise.app.balancer_process import balancer_spec
from counterpoise.app.local_cluster import LocalClusterOptions, data_directory
from counterpoise.app.processes import Child
from counterpoise.storage.open import file_url

METADATA_FILE = "metadata.db"


class OneProcessCluster:
    """Starts the brokers on a thread of this process; what they keep is in files."""

    def __init__(self, options: LocalClusterOptions) -> None:
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
            self.data = data_directory(options.data, undo)
            kept = file_url(self.data / METADATA_FILE).replace("file:", "sqlite:", 1)
            self.metadata_url = options.metadata_url or kept
            config = {
                "metadataStoreUrl": self.metadata_url,
                "ledgerStoreUrl": file_url(self.data / "messages"),
                "brokerServicePort": str(options.first_port),
                "webServicePort": str(options.first_web_port),
                **_known(options.settings),
                # Two who move bundles would undo each other's work.
                **({"loadBalancerSheddingEnabled": "false"} if options.balance else {}),
            }
            self._cluster = Cluster(
                options.brokers, config=config, balance_every_s=options.balance_every_s
            )
            undo.callback(self._stop_cluster)
            self._cluster.start()
            if options.balance:
                spec = balancer_spec(self.admin_url, self.history, options.balance_options)
                undo.callback(Child(spec).stop)
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


def _known(settings: Mapping[str, str]) -> dict[str, str]:
    """Without what a broker.conf may hold for other programs."""
    if not settings:
        return {}
    # Only then: the table imports every room, and a cluster should start at once.
    from counterpoise.app.settings.table import known_names

    return {name: value for name, value in settings.items() if name in known_names()}
