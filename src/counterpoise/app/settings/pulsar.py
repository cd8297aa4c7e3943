"""Every setting that Apache Pulsar 4.0.7 reads from broker.conf."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class PulsarSetting:
    """One setting of Pulsar's broker.conf."""

    name: str
    default: str
    """The default as text; empty if there is none, or if it depends on the machine."""
    dynamic: bool
    """Whether it can be changed while brokers run."""

    def is_changed(self, value: str) -> bool:
        """Whether a value differs from the default; a blank value counts as the default."""
        given = value.strip()
        return bool(given) and given.lower() != self.default.lower() and not self._is_same(given)

    def _is_same(self, given: str) -> bool:
        try:
            return float(given) == float(self.default)
        except ValueError:
            return False


@cache
def pulsar_settings() -> Mapping[str, PulsarSetting]:
    """Return all settings of Pulsar's broker.conf, by name."""
    text = files("counterpoise.app.settings").joinpath("pulsar_settings.tsv").read_text("utf-8")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, default, dynamic = [*line.split("\t"), "", ""][:3]
            found[name] = PulsarSetting(name, default, dynamic == "dynamic")
    return MappingProxyType(found)
