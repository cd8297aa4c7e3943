"""Bundles: a namespace's hash ring cut into ranges, each owned by one broker as a whole."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from counterpoise.names.errors import InvalidName
from counterpoise.names.hashing import FULL_UPPER_BOUND, topic_hash
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

_TEXT_MAX = 600
"""Characters of the longest name of a bundle."""
_HEX = re.compile(r"(?:0[xX]|#)([0-9a-fA-F]+)")
_DECIMAL = re.compile(r"[0-9]+")


def parse_boundary(text: str) -> int:
    """Read one boundary by ``Long.decode``'s rules: ``0x..``, ``#..``, octal with 0, decimal."""
    value = -1
    if hexadecimal := _HEX.fullmatch(text):
        value = int(hexadecimal[1], 16)
    elif _DECIMAL.fullmatch(text) and not (text[0] == "0" and set("89") & set(text)):
        value = int(text, 8 if text[0] == "0" else 10)
    if not 0 <= value <= FULL_UPPER_BOUND:
        raise InvalidName(text, "a bundle boundary is 0x00000000 to 0xffffffff")
    return value


def format_boundary(value: int) -> str:
    """Write one boundary as Pulsar does, ``0x%08x``."""
    return f"0x{value:08x}"


def namespace_of(bundle: str) -> str:
    """The namespace part of a bundle's name, unchecked, as reports spell it."""
    return bundle.rpartition("/")[0]


def range_of(bundle: str) -> str:
    """The range in such a name, ``0x…_0x…``."""
    return bundle.rpartition("/")[2]


def names_a_bundle(text: str) -> bool:
    """Whether a person means a bundle by it, and no topic or namespace."""
    return "_0x" in range_of(text)


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """``[lower, upper)`` of the ring; the upper bound 0xffffffff itself belongs to its range."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= FULL_UPPER_BOUND or not 0 <= self.upper <= FULL_UPPER_BOUND:
            raise InvalidName(str(self), "bundle boundaries are 0x00000000 to 0xffffffff")
        if self.lower >= self.upper and not self.lower == self.upper == FULL_UPPER_BOUND:
            raise InvalidName(str(self), "the lower boundary must be below the upper one")

    @staticmethod
    def parse(text: str) -> BundleRange:
        """Read ``0x…_0x…``; raise `InvalidName` for anything else."""
        lower, mark, upper = text.partition("_")
        if not mark:
            raise InvalidName(text, "expected 0xLOWER_0xUPPER")
        return BundleRange(parse_boundary(lower), parse_boundary(upper))

    def __str__(self) -> str:
        return f"{format_boundary(self.lower)}_{format_boundary(self.upper)}"

    def __contains__(self, point: int) -> bool:
        return self.lower <= point < self.upper or point == self.upper == FULL_UPPER_BOUND


FULL_RANGE = BundleRange(0, FULL_UPPER_BOUND)


@dataclass(frozen=True, slots=True, order=True)
class BundleName:
    """``tenant/namespace/0x…_0x…``: one bundle of one namespace."""

    namespace: NamespaceName
    range: BundleRange
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_text", f"{self.namespace}/{self.range}")

    @staticmethod
    def parse(text: str) -> BundleName:
        """Read ``tenant/namespace/0x…_0x…``; raise `InvalidName` for anything else."""
        if len(text) > _TEXT_MAX:
            # Before the cache sees it.
            raise InvalidName(text, "expected tenant/namespace/0xLOWER_0xUPPER")
        return _parse(text)

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __contains__(self, topic: TopicName) -> bool:
        return topic.namespace_name == self.namespace and topic_hash(str(topic)) in self.range


@lru_cache(maxsize=65536)
def _parse(text: str) -> BundleName:
    namespace, mark, bounds = text.rpartition("/")
    if not mark:
        raise InvalidName(text, "expected tenant/namespace/0xLOWER_0xUPPER")
    return BundleName(NamespaceName.parse(namespace), BundleRange.parse(bounds))


@dataclass(frozen=True, slots=True)
class NamespaceBundles:
    """All the bundles of one namespace: its ring and where it is cut.

    ``boundaries`` run from 0x00000000 to 0xffffffff, strictly rising.
    """

    namespace: NamespaceName
    boundaries: tuple[int, ...]
    bundles: tuple[BundleName, ...] = field(init=False, repr=False, compare=False)
    _lowers: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        points = self.boundaries
        shown = ", ".join(map(format_boundary, points))
        if len(points) < 2 or points[0] != 0 or points[-1] != FULL_UPPER_BOUND:
            raise InvalidName(shown, "boundaries must start at 0x00000000 and end at 0xffffffff")
        if any(left >= right for left, right in pairwise(points)):
            raise InvalidName(shown, "boundaries must rise, each only once")
        ranges = (BundleRange(*pair) for pair in pairwise(points))
        bundles = tuple(BundleName(self.namespace, each) for each in ranges)
        object.__setattr__(self, "bundles", bundles)
        object.__setattr__(self, "_lowers", points[1:-1])

    @staticmethod
    def of_count(namespace: NamespaceName, count: int) -> NamespaceBundles:
        """Cut the ring into ``count`` equal bundles (2**32 div count each, the last the rest)."""
        if not 1 <= count <= FULL_UPPER_BOUND:
            raise InvalidName(str(namespace), f"cannot have {count} bundles, at least 1")
        segment = (FULL_UPPER_BOUND + 1) // count
        cuts = (segment * index for index in range(count))
        return NamespaceBundles(namespace, (*cuts, FULL_UPPER_BOUND))

    @staticmethod
    def from_text(namespace: NamespaceName, boundaries: Sequence[str]) -> NamespaceBundles:
        """The bundles between boundaries that a person or the metadata store wrote; in any
        order, duplicates are merged.
        """
        return NamespaceBundles(namespace, tuple(sorted(set(map(parse_boundary, boundaries)))))

    @property
    def boundary_texts(self) -> list[str]:
        """The boundaries as the metadata store and the admin API write them."""
        return [format_boundary(point) for point in self.boundaries]

    def find(self, point: int) -> BundleName:
        """The bundle that holds a point of the ring; a boundary belongs to the bundle it begins.

        Pulsar 4.0.7 indexes past its last bundle for 0xffffffff and answers with an
        IndexOutOfBoundsException; here that point is in the last bundle, whose range includes it.
        """
        return self.bundles[bisect_right(self._lowers, point)]

    def bundle_of(self, topic: TopicName) -> BundleName:
        """The bundle of a topic of this namespace."""
        return self.bundles[bisect_right(self._lowers, topic_hash(str(topic)))]

    def validate(self, bundle: BundleRange) -> BundleName:
        """The bundle with exactly this range, or `InvalidName`: it was split, or never was."""
        found = self.find(bundle.lower)
        if found.range != bundle:
            raise InvalidName(
                f"{self.namespace}/{bundle}",
                f"no such bundle now; the namespace has {found.range} there",
            )
        return found

    def split(
        self, bundle: BundleRange, boundaries: Sequence[int] | None = None, n: int = 2
    ) -> NamespaceBundles:
        """The namespace after one bundle is cut; see `cut` for the rules."""
        self.validate(bundle)
        inner = cut(bundle, boundaries, n)
        return NamespaceBundles(self.namespace, tuple(sorted({*self.boundaries, *inner})))

    def children(self, parent: BundleRange) -> tuple[BundleName, ...]:
        """The bundles that now cover a range which was one bundle before a split."""
        return tuple(
            each
            for each in self.bundles
            if parent.lower <= each.range.lower and each.range.upper <= parent.upper
        )


def cut(
    bundle: BundleRange, boundaries: Sequence[int] | None = None, n: int = 2
) -> tuple[int, ...]:
    """Where a bundle is cut: at ``boundaries``, or else into ``n`` parts of equal width.

    As ``NamespaceBundleFactory.splitBundles``: with boundaries ``n`` is ignored; equal parts are
    (upper - lower) div n wide and the last takes the rest, so the full range is cut at 0x7fffffff.
    Raises `InvalidName` for a range of width 1 or less, a boundary that is not strictly inside,
    one given twice, or more parts than the range has points.
    """
    if bundle.upper - bundle.lower <= 1:
        raise InvalidName(str(bundle), "a bundle this narrow cannot be split")
    if boundaries:
        points = sorted(boundaries)
    elif n < 2:
        raise InvalidName(str(bundle), f"cannot be split into {n} bundles, at least 2")
    else:
        segment = (bundle.upper - bundle.lower) // n
        points = [bundle.lower + segment * part for part in range(1, n)]
    if points[0] <= bundle.lower or points[-1] >= bundle.upper:
        raise InvalidName(str(bundle), "split boundaries must lie strictly inside the bundle")
    if any(left == right for left, right in pairwise(points)):
        raise InvalidName(str(bundle), "split boundaries must differ from each other")
    return tuple(points)
