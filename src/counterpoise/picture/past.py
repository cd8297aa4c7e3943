"""What a page remembers of a cluster: loads for a while, and every change of an owner.

A fold of scenes, bounded in memory however long a page stays open and however large the cluster is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.picture.scene import NOBODY, Scene

Narrow = npt.NDArray[np.float32]

SAMPLES_MOST: Final = 300
CELLS_MOST: Final = 4_000_000
"""Figures that are kept in all; of a huge cluster fewer moments."""
SAMPLES_LEAST: Final = 8
SAMPLE_EVERY_MS: Final = 5_000
CHANGES_MOST: Final = 500
AWAY_MOST_MS: Final = 10 * 60_000
"""How long a bundle that nobody reports counts as on its way; then it is merely not loaded."""


class Fate(StrEnum):
    """What happened to a bundle."""

    MOVED = "moved"
    """It has another owner."""
    LEFT = "left"
    """Nobody reports it any more."""
    CAME = "came"
    """It is reported, which it was not before."""
    SPLIT = "split"
    """It is gone, and smaller ones are in its place."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a bundle, and between whom; empty where there is nobody."""

    at_ms: int
    bundle: str
    fate: Fate
    source: str
    destination: str

    @property
    def sentence(self) -> str:
        """The same for a person."""
        match self.fate:
            case Fate.MOVED:
                return f"moved from {self.source or 'nobody'} to {self.destination}"
            case Fate.LEFT:
                return f"left {self.source}; no broker reports it"
            case Fate.CAME:
                return f"came to {self.destination}"
            case Fate.SPLIT:
                return f"was split on {self.source}"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The loads of all bundles at one moment."""

    at_ms: int
    names: tuple[str, ...]
    bytes: Narrow
    messages: Narrow
    brokers: tuple[str, ...]
    broker_bytes: Narrow


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Everything that is remembered."""

    samples: tuple[Sample, ...] = ()
    changes: tuple[Change, ...] = ()
    """The latest last."""
    away: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Bundles that nobody reports: since when, and who had them."""
    last: Scene | None = None

    def after(self, scene: Scene) -> "Past":
        """With one more scene; one in which the cluster did not answer changes nothing."""
        if scene.trouble or not scene.at_ms:
            return self
        changes, away = self._changed(scene)
        return Past(self._sampled(scene), (*self.changes, *changes)[-CHANGES_MOST:], away, scene)

    def trace(self, bundle: str) -> "Trace":
        """One bundle's load over time."""
        times, flows, messages = [], [], []
        names: tuple[str, ...] = ()
        row = -1
        for sample in self.samples:
            if sample.names is not names:
                names, row = sample.names, _index(sample.names, bundle)
            times.append(sample.at_ms)
            flows.append(float(sample.bytes[row]) if row >= 0 else None)
            messages.append(float(sample.messages[row]) if row >= 0 else None)
        return Trace(tuple(times), tuple(flows), tuple(messages))

    def broker_trace(self, broker: str) -> "Trace":
        """One broker's load over time."""
        found = [
            (each.at_ms, float(each.broker_bytes[each.brokers.index(broker)]))
            for each in self.samples
            if broker in each.brokers
        ]
        return Trace(tuple(at for at, _ in found), tuple(flow for _, flow in found), ())

    def of_bundle(self, bundle: str) -> tuple[Change, ...]:
        """What happened to one bundle, the latest first."""
        return tuple(each for each in reversed(self.changes) if each.bundle == bundle)

    def _sampled(self, scene: Scene) -> tuple[Sample, ...]:
        if self.samples and scene.at_ms - self.samples[-1].at_ms < SAMPLE_EVERY_MS:
            return self.samples
        view = scene.view
        # The same names are one tuple, so that samples of an unchanged cluster share it.
        known = self.samples[-1].names if self.samples else ()
        names = known if known == view.bundles else view.bundles
        sample = Sample(
            scene.at_ms,
            names,
            scene.bundle_bytes.astype(np.float32),
            scene.bundle_messages.astype(np.float32),
            view.brokers,
            scene.per_broker(scene.bundle_bytes).astype(np.float32),
        )
        most = max(SAMPLES_LEAST, min(SAMPLES_MOST, CELLS_MOST // max(1, 2 * len(names))))
        return (*self.samples, sample)[-most:]

    def _changed(self, scene: Scene) -> tuple[list[Change], dict[str, tuple[int, str]]]:
        if self.last is None:
            return [], {}
        if _same_owners(self.last, scene):
            return [], self._still_away(scene.at_ms, ())
        then, current = _owner_by_name(self.last), _owner_by_name(scene)
        away = self._still_away(scene.at_ms, current)
        changes = []
        appeared = sorted(current.keys() - then.keys())
        for bundle in sorted(then.keys() - current.keys()):
            source = then[bundle]
            if _heirs(bundle, appeared):
                changes.append(Change(scene.at_ms, bundle, Fate.SPLIT, source, ""))
            else:
                changes.append(Change(scene.at_ms, bundle, Fate.LEFT, source, ""))
                away[bundle] = (scene.at_ms, source)
        for bundle in appeared:
            source = self.away.get(bundle, (0, ""))[1]
            fate = Fate.MOVED if source and source != current[bundle] else Fate.CAME
            changes.append(Change(scene.at_ms, bundle, fate, source, current[bundle]))
        changes += [
            Change(scene.at_ms, bundle, Fate.MOVED, then[bundle], current[bundle])
            for bundle in sorted(then.keys() & current.keys())
            if then[bundle] != current[bundle]
        ]
        return changes, away

    def _still_away(self, now_ms: int, back: Collection[str]) -> dict[str, tuple[int, str]]:
        return {
            bundle: (since, source)
            for bundle, (since, source) in self.away.items()
            if bundle not in back and now_ms - since <= AWAY_MOST_MS
        }


@dataclass(frozen=True, slots=True)
class Trace:
    """Load over time; None where there was nothing to be seen."""

    times_ms: tuple[int, ...]
    bytes_per_s: tuple[float | None, ...]
    messages_per_s: tuple[float | None, ...]


def _same_owners(one: Scene, other: Scene) -> bool:
    return (
        one.view.bundles == other.view.bundles
        and one.view.brokers == other.view.brokers
        and bool(np.array_equal(one.owners, other.owners))
    )


def _owner_by_name(scene: Scene) -> dict[str, str]:
    view = scene.view
    return {
        bundle: view.brokers[owner]
        for bundle, owner in zip(view.bundles, scene.owners.tolist(), strict=True)
        if owner != NOBODY
    }


def _index(names: Sequence[str], wanted: str) -> int:
    try:
        return names.index(wanted)
    except ValueError:
        return -1


def _heirs(bundle: str, appeared: Sequence[str]) -> bool:
    """Whether a part of this bundle is among those that appeared."""
    if not appeared:
        return False
    try:
        old = BundleName.parse(bundle)
        parts = [
            BundleName.parse(each) for each in appeared if each.startswith(f"{old.namespace}/")
        ]
    except InvalidName:
        return False
    return any(
        part.range.lower >= old.range.lower and part.range.upper <= old.range.upper
        for part in parts
    )
