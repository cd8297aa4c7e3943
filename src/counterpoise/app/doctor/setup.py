"""The configuration that is checked: typed values with their sources, and the cluster's size."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from counterpoise.app.doctor.diagnosis import Shown
from counterpoise.app.settings.table import table
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
TRANSFER_SHEDDER = "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
AVG_SHEDDER = IMPL + "AvgShedder"
SHEDDERS = (
    IMPL + "OverloadShedder",
    IMPL + "ThresholdShedder",
    IMPL + "UniformLoadShedder",
    AVG_SHEDDER,
)
"""The shedding strategies of the modular manager in Pulsar 4.0."""
PLACEMENTS = (
    IMPL + "LeastLongTermMessageRate",
    IMPL + "LeastResourceUsageWithWeight",
    IMPL + "RoundRobinBrokerSelector",
    AVG_SHEDDER,
)

SHEDDER = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
MANAGER = "loadManagerClassName"


@dataclass(frozen=True)
class Setup:
    """The configuration to be examined: a broker.conf with ``--set``, and the cluster's size."""

    properties: Properties
    brokers: int | None = None
    bundles: int | None = None
    """Bundles of the cluster, or of its one large namespace; None: those of a new namespace."""

    @cached_property
    def _read(self) -> tuple[Mapping[str, Any], tuple[ConfigError, ...]]:
        values: dict[str, Any] = {}
        errors: list[ConfigError] = []
        for name, entry in table().items():
            values[name] = entry.option.default
            if name in self.properties.values:
                line = self.properties.lines.get(name)
                try:
                    values[name] = entry.option.parse(self.properties.values[name], line)
                except ConfigError as error:
                    errors.append(error)
        return values, tuple(errors)

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """The errors of invalid values; the checks use the defaults in their place."""
        return self._read[1]

    def get(self, name: str) -> Any:
        """Return the effective value of a setting, in the option's type."""
        return self._read[0][name]

    def number(self, name: str) -> float:
        """Return the effective value of a numeric setting."""
        value: float = self.get(name)
        return value

    def given(self, name: str) -> bool:
        """Whether the setting is given with a value that is not blank, perhaps its default."""
        return bool(self.properties.values.get(name, "").strip())

    def changed(self, name: str) -> bool:
        """Whether the setting has a value other than the default.

        The broker.conf that Pulsar ships names nearly every setting at its default.
        """
        return self.given(name) and self.get(name) != table()[name].option.default

    def show(self, *names: str) -> dict[str, Shown]:
        """Return these settings' effective values with their sources, for a `Diagnosis`."""
        return {name: self._shown(name) for name in names}

    def written(self, *names: str) -> dict[str, Shown]:
        """Return these settings as they were given; the names may be unknown to Pulsar."""
        values, lines = self.properties.values, self.properties.lines
        return {name: Shown(values[name], lines.get(name)) for name in names}

    def _shown(self, name: str) -> Shown:
        if self.given(name):
            text = self.properties.values[name].strip()
            return Shown(text, self.properties.lines.get(name))
        value = self.get(name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return Shown(",".join(value) if isinstance(value, tuple) else text, None, True)

    @property
    def manager(self) -> str:
        """Which load manager Pulsar 4.0.7 starts: ``modular``, ``extensible`` or ``simple``."""
        # With a blank value Pulsar starts the simple load manager.
        if MANAGER in self.properties.values and not self.given(MANAGER):
            return "simple"
        name = self.get(MANAGER)
        if name == EXTENSIBLE:
            return "extensible"
        if name != MODULAR or self.modular_failure:
            return "simple"
        return "modular"

    @property
    def modular_failure(self) -> bool:
        """Whether the modular manager would fail to start, because of its strategies' names."""
        shedder, placement = self.get(SHEDDER), self.get(PLACEMENT)
        if placement == AVG_SHEDDER and shedder != AVG_SHEDDER:
            return True
        return bool(shedder == TRANSFER_SHEDDER)

    @property
    def shedder(self) -> str:
        """The short name of the shedder that the load manager really uses."""
        if self.manager == "extensible":
            return "TransferShedder"
        return str(self.get(SHEDDER)).rpartition(".")[2]

    @property
    def placement(self) -> str:
        """The short name of the placement strategy that the load manager really uses."""
        if self.manager == "extensible":
            return "LeastResourceUsageWithWeight"
        return str(self.get(PLACEMENT)).rpartition(".")[2]

    @property
    def sheds(self) -> bool:
        """Whether anything sheds load: the cluster's leader, or a balancer beside the cluster."""
        return bool(self.get("loadBalancerEnabled"))
