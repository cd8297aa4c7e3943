"""The cluster in a line of figures, and in a sentence for who cannot see the picture."""

from collections.abc import Sequence
from typing import NamedTuple

from counterpoise.picture.past import Past
from counterpoise.picture.scene import Scene
from counterpoise.picture.throttled import Throttled
from counterpoise.picture.units import bytes_per_s, counted, messages_per_s, times


class Figure(NamedTuple):
    """A figure, what it is of, and whether somebody should look."""

    label: str
    value: str
    alarming: bool = False


UNEVEN = 0.25
"""Largest ÷ mean - 1 above which brokers count as uneven (as in backtests)."""


def figures(scene: Scene, past: Past, throttled: Sequence[Throttled]) -> tuple[Figure, ...]:
    """What an operator looks at first."""
    silent = len(scene.silent)
    brokers = len(scene.view.brokers)
    answering = f"{brokers:,}" if not silent else f"{brokers:,}, {silent} silent"
    return (
        Figure("Brokers", answering, bool(silent)),
        Figure("Bundles", f"{len(scene.view.bundles):,}"),
        Figure("Messages", messages_per_s(float(scene.bundle_messages.sum()))),
        Figure("Traffic", bytes_per_s(float(scene.bundle_bytes.sum()))),
        Figure("Largest \N{DIVISION SIGN} mean", times(1 + scene.imbalance),
               scene.imbalance > UNEVEN),
        Figure("On their way", f"{len(past.away) + len(scene.twice):,}"),
        Figure("Limits reached", f"{len(throttled):,}", bool(throttled)),
    )  # fmt: skip


def in_words(scene: Scene) -> str:
    """The picture in a sentence."""
    if not scene.view.brokers:
        return "No broker has told its load yet."
    loads = scene.per_broker(scene.bundle_bytes)
    most, least = int(loads.argmax()), int(loads.argmin())
    names = scene.view.brokers
    return (
        f"{counted(len(names), 'broker')} with {counted(len(scene.view.bundles), 'bundle')}. "
        f"The most loaded is {names[most]} with {bytes_per_s(float(loads[most]))}, "
        f"{times(float(scene.ratios[most]))} the mean; the least is {names[least]} with "
        f"{bytes_per_s(float(loads[least]))}. The tables below say the same in figures."
    )
