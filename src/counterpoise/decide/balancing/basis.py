"""The figures behind a move: its bundle's average load, and the latest measurements."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from counterpoise.load.fields import JsonObject
from counterpoise.names.units import bytes_text


class Measurement(NamedTuple):
    """A measured load in bytes/s (in plus out), and its age in seconds; None if not known."""

    bytes_per_s: float
    age_s: float | None = None

    @property
    def sentence(self) -> str:
        """The measurement as text: bytes/s, and how long ago."""
        age = "" if self.age_s is None else f" {self.age_s:.0f} s ago"
        return f"{bytes_text(self.bytes_per_s)}{age}"


@dataclass(frozen=True, slots=True)
class MoveBasis(JsonObject):
    """The measured figures on which a move was decided."""

    average: float
    """Bytes/s in and out of the bundle, by its short average."""
    samples: int
    """The number of reports that the average is of."""
    measured: Measurement | None = None
    """The bundle's load in the newest report that contains it."""
    source: Measurement | None = None
    """The source's load by its last report."""
    destination: Measurement | None = None
    """The destination's load by its last report."""

    def sentence_of(self, source: str, destination: str) -> str:
        """The figures as a sentence, with the names of source and destination."""
        reports = "its only report" if self.samples == 1 else f"its last {self.samples} reports"
        carries = f"it carries {bytes_text(self.average)} on average of {reports}"
        if self.measured is not None:
            carries += f", {self.measured.sentence} by the newest"
        brokers = ((source, self.source), (destination, self.destination))
        reported = [f"{name} reported {seen.sentence}" for name, seen in brokers if seen]
        return "; ".join([carries, *reported])

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return asdict(self)
