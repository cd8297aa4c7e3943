"""``TimeAverageBrokerData``: the sums of a broker's bundles' averages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.load.average import BundleData
from counterpoise.load.fields import from_json, to_json
from counterpoise.load.report import NamespaceBundleStats


@dataclass(frozen=True, slots=True)
class TimeAverageBrokerData:
    """Short- and long-term throughput (bytes/s) and rate (messages/s) of one broker."""

    short_term_msg_throughput_in: float = 0.0
    short_term_msg_throughput_out: float = 0.0
    short_term_msg_rate_in: float = 0.0
    short_term_msg_rate_out: float = 0.0
    long_term_msg_throughput_in: float = 0.0
    long_term_msg_throughput_out: float = 0.0
    long_term_msg_rate_in: float = 0.0
    long_term_msg_rate_out: float = 0.0

    @staticmethod
    def of(
        bundles: Iterable[str],
        known: Mapping[str, BundleData],
        default: NamespaceBundleStats,
    ) -> "TimeAverageBrokerData":
        """Sum the averages of ``bundles`` in the order given (``reset`` of Pulsar's class).

        A bundle that is not ``known`` adds ``default`` to both terms.
        """
        sums = [0.0] * 8
        for name in bundles:
            data = known.get(name)
            if data is None:
                parts = (default, default)
            else:
                parts = (data.short_term_data, data.long_term_data)  # type: ignore[assignment]
            values = [
                value
                for part in parts
                for value in (
                    part.msg_throughput_in,
                    part.msg_throughput_out,
                    part.msg_rate_in,
                    part.msg_rate_out,
                )
            ]
            sums = [total + value for total, value in zip(sums, values, strict=True)]
        return TimeAverageBrokerData(*sums)

    @staticmethod
    def from_json(value: object, path: str = "TimeAverageBrokerData") -> "TimeAverageBrokerData":
        """Read Pulsar's JSON form; raises ``LoadDataError`` naming the field."""
        return from_json(TimeAverageBrokerData, value, path)

    def to_json(self) -> dict[str, Any]:
        """Pulsar's JSON form."""
        return to_json(self)  # type: ignore[no-any-return]
