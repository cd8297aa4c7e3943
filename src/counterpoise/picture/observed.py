"""What the console has observed since it started: recent loads, and changes of owners.

A fold of pictures, whose memory is bounded however long a page stays open and however large the
cluster is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.picture.cluster_picture import NO_OWNER, ClusterPicture

Narrow = npt.NDArray[np.float32]

SAMPLES_MOST: Final = 300
CELLS_MOST: Final = 4_000_000
"""The most figures that are kept in all; of a huge cluster fewer samples are kept."""
SAMPLES_LEAST: Final = 8
SAMPLE_EVERY_MS: Final = 5_000
CHANGES_MOST: Final = 500
AWAY_MOST_MS: Final = 10 * 60_000
"""A bundle that no broker reports counts as moving for so many milliseconds, then as not loaded."""


class ChangeKind(StrEnum):
    """What happened to a bundle's ownership."""

    MOVED = "moved"
    """The bundle has another owner."""
    LEFT = "left"
    """No broker reports the bundle any more."""
    CAME = "came"
    """The bundle is reported for the first time."""
    SPLIT = "split"
    """The bundle is gone, and smaller ones are in its place."""


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """A change of a bundle's owner; an empty name means no broker."""

    at_ms: int
    bundle: str
    fate: ChangeKind
    source: str
    destination: str

    @property
    def sentence(self) -> str:
        """The change as a sentence."""
        match self.fate:
            case ChangeKind.MOVED:
                return f"moved from {self.source or 'no broker'} to {self.destination}"
            case ChangeKind.LEFT:
                return f"left {self.source}; no broker reports it"
            case ChangeKind.CAME:
                return f"came to {self.destination}"
            case ChangeKind.SPLIT:
                return f"was split on {self.source}"


@dataclass(frozen=True, slots=True, eq=False)
class LoadSample:
    """The loads of all bundles and brokers at one moment."""

    at_ms: int
    names: tuple[str, ...]
    bytes: Narrow
    messages: Narrow
    brokers: tuple[str, ...]
    broker_bytes: Narrow


@dataclass(frozen=True, slots=True, eq=False)
class ObservedHistory:
    """The loads and ownership changes that the console has observed since it started."""

    samples: tuple[LoadSample, ...] = ()
    changes: tuple[OwnerChange, ...] = ()
    """The changes of bundles' owners, the latest last."""
    away: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """The bundles that no broker reports, each with the time since when and its last owner."""
    last: ClusterPicture | None = None

    def after(self, picture: ClusterPicture) -> "ObservedHistory":
        """The history extended by a picture; unchanged if the cluster did not respond."""
        if picture.trouble or not picture.at_ms:
            return self
        changes, away = self._changed(picture)
        return ObservedHistory(
            self._sampled(picture), (*self.changes, *changes)[-CHANGES_MOST:], away, picture
        )

    def bundle_curve(self, bundle: str) -> "LoadCurve":
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
        return LoadCurve(tuple(times), tuple(flows), tuple(messages))

    def broker_curve(self, broker: str) -> "LoadCurve":
        """One broker's load over time."""
        found = [
            (each.at_ms, float(each.broker_bytes[each.brokers.index(broker)]))
            for each in self.samples
            if broker in each.brokers
        ]
        return LoadCurve(tuple(at for at, _ in found), tuple(flow for _, flow in found), ())

    def of_bundle(self, bundle: str) -> tuple[OwnerChange, ...]:
        """The ownership changes of one bundle, the latest first."""
        return tuple(each for each in reversed(self.changes) if each.bundle == bundle)

    def _sampled(self, picture: ClusterPicture) -> tuple[LoadSample, ...]:
        if self.samples and picture.at_ms - self.samples[-1].at_ms < SAMPLE_EVERY_MS:
            return self.samples
        view = picture.view
        # Equal names are kept as one tuple, which the samples of an unchanged cluster share.
        known = self.samples[-1].names if self.samples else ()
        names = known if known == view.bundles else view.bundles
        sample = LoadSample(
            picture.at_ms,
            names,
            picture.bundle_bytes.astype(np.float32),
            picture.bundle_messages.astype(np.float32),
            view.brokers,
            picture.per_broker(picture.bundle_bytes).astype(np.float32),
        )
        most = max(SAMPLES_LEAST, min(SAMPLES_MOST, CELLS_MOST // max(1, 2 * len(names))))
        return (*self.samples, sample)[-most:]

    def _changed(
        self, picture: ClusterPicture
    ) -> tuple[list[OwnerChange], dict[str, tuple[int, str]]]:
        if self.last is None:
            return [], {}
        if _same_owners(self.last, picture):
            return [], self._still_away(picture.at_ms, ())
        then, current = _owner_by_name(self.last), _owner_by_name(picture)
        away = self._still_away(picture.at_ms, current)
        changes = []
        appeared = sorted(current.keys() - then.keys())
        for bundle in sorted(then.keys() - current.keys()):
            source = then[bundle]
            if _was_split(bundle, appeared):
                changes.append(OwnerChange(picture.at_ms, bundle, ChangeKind.SPLIT, source, ""))
            else:
                changes.append(OwnerChange(picture.at_ms, bundle, ChangeKind.LEFT, source, ""))
                away[bundle] = (picture.at_ms, source)
        for bundle in appeared:
            source = self.away.get(bundle, (0, ""))[1]
            fate = ChangeKind.MOVED if source and source != current[bundle] else ChangeKind.CAME
            changes.append(OwnerChange(picture.at_ms, bundle, fate, source, current[bundle]))
        changes += [
            OwnerChange(picture.at_ms, bundle, ChangeKind.MOVED, then[bundle], current[bundle])
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
class LoadCurve:
    """A load over time; None at moments without a report."""

    times_ms: tuple[int, ...]
    bytes_per_s: tuple[float | None, ...]
    messages_per_s: tuple[float | None, ...]


def _same_owners(one: ClusterPicture, other: ClusterPicture) -> bool:
    return (
        one.view.bundles == other.view.bundles
        and one.view.brokers == other.view.brokers
        and bool(np.array_equal(one.owners, other.owners))
    )


def _owner_by_name(picture: ClusterPicture) -> dict[str, str]:
    view = picture.view
    return {
        bundle: view.brokers[owner]
        for bundle, owner in zip(view.bundles, picture.owners.tolist(), strict=True)
        if owner != NO_OWNER
    }


def _index(names: Sequence[str], name: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        return -1


def _was_split(bundle: str, appeared: Sequence[str]) -> bool:
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
