"""A picture of a cluster as key figures, and as a sentence for screen readers."""

from collections.abc import Sequence
from typing import NamedTuple

from counterpoise.names.units import bytes_text, counted, messages_text, times
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.observed import ObservedHistory
from counterpoise.picture.reached_limits import ReachedLimit


class KeyFigure(NamedTuple):
    """A key figure as text, its label, and whether it needs attention."""

    label: str
    value: str
    alarming: bool = False


UNEVEN = 0.25
"""Largest ÷ mean - 1 above which brokers count as uneven (as in backtests)."""


def key_figures(
    picture: ClusterPicture, past: ObservedHistory, throttled: Sequence[ReachedLimit]
) -> tuple[KeyFigure, ...]:
    """The figures that the console shows at the top."""
    silent = len(picture.silent)
    brokers = len(picture.view.brokers)
    answering = f"{brokers:,}" if not silent else f"{brokers:,}, {silent} silent"
    return (
        KeyFigure("Brokers", answering, bool(silent)),
        KeyFigure("Bundles", f"{len(picture.view.bundles):,}"),
        KeyFigure("Messages", messages_text(float(picture.bundle_messages.sum()))),
        KeyFigure("Traffic", bytes_text(float(picture.bundle_bytes.sum()))),
        KeyFigure(
            "Largest \N{DIVISION SIGN} mean",
            times(1 + picture.imbalance),
            picture.imbalance > UNEVEN,
        ),
        KeyFigure("On their way", f"{len(past.away) + len(picture.twice):,}"),
        KeyFigure("Limits reached", f"{len(throttled):,}", bool(throttled)),
    )


def in_words(picture: ClusterPicture) -> str:
    """The cluster's state in a sentence, for screen readers."""
    if not picture.view.brokers:
        return "No broker has reported its load yet."
    loads = picture.per_broker(picture.bundle_bytes)
    most, least = int(loads.argmax()), int(loads.argmin())
    names = picture.view.brokers
    return (
        f"{counted(len(names), 'broker')} with {counted(len(picture.view.bundles), 'bundle')}. "
        f"The most loaded is {names[most]} with {bytes_text(float(loads[most]))}, "
        f"{times(float(picture.ratios[most]))} the mean; the least is {names[least]} with "
        f"{bytes_text(float(loads[least]))}. The tables below say the same in figures."
    )
