"""A broker's ``TimeAverageBrokerData``: the sums of its bundles' averages."""

from dataclasses import dataclass

from counterpoise.load.fields import JsonObject
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class TimeAverageBrokerData(JsonObject):
    """Short- and long-term throughput (bytes/s) and rate (messages/s) of one broker."""

    short_term_msg_throughput_in: float = 0.0
    short_term_msg_throughput_out: float = 0.0
    short_term_msg_rate_in: float = 0.0
    short_term_msg_rate_out: float = 0.0
    long_term_msg_throughput_in: float = 0.0
    long_term_msg_throughput_out: float = 0.0
    long_term_msg_rate_in: float = 0.0
    long_term_msg_rate_out: float = 0.0


def broker_averages(view: ClusterView) -> dict[str, TimeAverageBrokerData]:
    """Each broker's average load by its name, in the form in which Pulsar's leaders store it."""
    terms = (view.broker.short_average, view.broker.long_average)
    columns = [
        column.tolist()
        for term in terms
        for column in (term.throughput_in, term.throughput_out, term.rate_in, term.rate_out)
    ]
    rows = zip(*columns, strict=True)
    return {name: TimeAverageBrokerData(*row) for name, row in zip(view.brokers, rows, strict=True)}
