"""Bundles: ranges of a namespace's hash ring, each owned by one broker."""

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
"""The most characters in a bundle's name."""
_HEX = re.compile(r"(?:0[xX]|#)([0-9a-fA-F]+)")
_DECIMAL = re.compile(r"[0-9]+")


def parse_boundary(text: str) -> int:
    """Parse one boundary of a bundle's hash range: hexadecimal, octal or decimal, as in Java.

    Raises `InvalidName` for any other text, and for a number outside of the hash ring.
    """
    value = -1
    if hexadecimal := _HEX.fullmatch(text):
        value = int(hexadecimal[1], 16)
    elif _DECIMAL.fullmatch(text) and not (text[0] == "0" and set("89") & set(text)):
        value = int(text, 8 if text[0] == "0" else 10)
    if not 0 <= value <= FULL_UPPER_BOUND:
        raise InvalidName(text, "a bundle boundary is 0x00000000 to 0xffffffff")
    return value


def format_boundary(value: int) -> str:
    """One boundary of a bundle's hash range as Pulsar writes it: ``0x`` and eight hex digits."""
    return f"0x{value:08x}"


def namespace_of(bundle: str) -> str:
    """The ``tenant/namespace`` part of a bundle's name ``tenant/namespace/0x…_0x…``; unchecked."""
    return bundle.rpartition("/")[0]


def range_of(bundle: str) -> str:
    """The hash range ``0x…_0x…`` of a bundle's name ``tenant/namespace/0x…_0x…``; unchecked."""
    return bundle.rpartition("/")[2]


def names_a_bundle(text: str) -> bool:
    """Whether a text that a person typed ends in a hash range, so that it means a bundle."""
    return "_0x" in range_of(text)


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """A bundle's range of the hash ring: from ``lower`` to just below ``upper``.

    Only the ring's last point, 0xffffffff, belongs to the range that it ends.
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= FULL_UPPER_BOUND or not 0 <= self.upper <= FULL_UPPER_BOUND:
            raise InvalidName(str(self), "bundle boundaries are 0x00000000 to 0xffffffff")
        if self.lower >= self.upper and not self.lower == self.upper == FULL_UPPER_BOUND:
            raise InvalidName(str(self), "the lower boundary must be below the upper one")

    @staticmethod
    def parse(text: str) -> "BundleRange":
        """Parse ``0x…_0x…``; raises `InvalidName` for anything else."""
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
    def parse(text: str) -> "BundleName":
        """Parse ``tenant/namespace/0x…_0x…``; raises `InvalidName` for anything else."""
        if len(text) > _TEXT_MAX:
            # Refused here, so that `_parse` does not cache it.
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
    """All bundles of one namespace.

    ``boundaries`` are where the 32-bit hash ring is cut: strictly rising, from 0 to 0xffffffff.
    """

    namespace: NamespaceName
    boundaries: tuple[int, ...]
    _lowers: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _named: dict[int, BundleName] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """The bundle names made so far, by index from 0. They are made on demand, since few of a
    namespace's thousands of bundles are ever needed."""

    def __post_init__(self) -> None:
        points = self.boundaries
        why_not = ""
        if len(points) < 2 or points[0] != 0 or points[-1] != FULL_UPPER_BOUND:
            why_not = "boundaries must start at 0x00000000 and end at 0xffffffff"
        elif any(left >= right for left, right in pairwise(points)):
            why_not = "boundaries must rise, each only once"
        if why_not:
            raise InvalidName(", ".join(self.boundary_texts), why_not)
        object.__setattr__(self, "_lowers", points[1:-1])

    @staticmethod
    def of_count(namespace: NamespaceName, count: int) -> "NamespaceBundles":
        """Cut the hash ring into ``count`` equal bundles; the last one gets the remainder."""
        if not 1 <= count <= FULL_UPPER_BOUND:
            raise InvalidName(str(namespace), f"cannot have {count} bundles, at least 1")
        segment = (FULL_UPPER_BOUND + 1) // count
        cuts = (segment * index for index in range(count))
        return NamespaceBundles(namespace, (*cuts, FULL_UPPER_BOUND))

    @staticmethod
    def from_text(namespace: NamespaceName, boundaries: Sequence[str]) -> "NamespaceBundles":
        """Make the bundles between boundaries that `parse_boundary` can read.

        Their order does not matter, and duplicates are merged.
        """
        return NamespaceBundles(namespace, tuple(sorted(set(map(parse_boundary, boundaries)))))

    @property
    def bundles(self) -> tuple[BundleName, ...]:
        """All bundles, in the order of their ranges."""
        return tuple(map(self._at, range(len(self.boundaries) - 1)))

    @property
    def boundary_texts(self) -> list[str]:
        """The boundaries as the metadata store and the admin API write them."""
        return [format_boundary(point) for point in self.boundaries]

    def find(self, point: int) -> BundleName:
        """The bundle whose range contains a point of the hash ring, such as a topic's hash.

        A boundary belongs to the bundle that begins there. For 0xffffffff Pulsar 4.0.7 fails with
        an IndexOutOfBoundsException; here that point is in the last bundle.
        """
        return self._at(bisect_right(self._lowers, point))

    def bundle_of(self, topic: TopicName) -> BundleName:
        """The bundle to which a topic of this namespace belongs by its hash."""
        return self._at(bisect_right(self._lowers, topic_hash(str(topic))))

    def validate(self, bundle: BundleRange) -> BundleName:
        """The bundle with exactly this range; raises `InvalidName` if there is none."""
        found = self.find(bundle.lower)
        if found.range != bundle:
            raise InvalidName(
                f"{self.namespace}/{bundle}",
                f"no such bundle now; the namespace has {found.range} there",
            )
        return found

    def split(
        self, bundle: BundleRange, boundaries: Sequence[int] | None = None, n: int = 2
    ) -> "NamespaceBundles":
        """Return the namespace's bundles after one of them is split, at ``boundaries`` or into
        ``n`` equal parts; raises `InvalidName`, see `split_points` and `validate`.
        """
        self.validate(bundle)
        inner = split_points(bundle, boundaries, n)
        return NamespaceBundles(self.namespace, tuple(sorted({*self.boundaries, *inner})))

    def children(self, parent: BundleRange) -> tuple[BundleName, ...]:
        """The bundles that now cover the range of ``parent``, a bundle that has been split."""
        return tuple(
            each
            for each in self.bundles
            if parent.lower <= each.range.lower and each.range.upper <= parent.upper
        )

    def _at(self, place: int) -> BundleName:
        found = self._named.get(place)
        if found is None:
            found = BundleName(self.namespace, BundleRange(*self.boundaries[place : place + 2]))
            self._named[place] = found
        return found


def split_points(
    bundle: BundleRange, boundaries: Sequence[int] | None = None, n: int = 2
) -> tuple[int, ...]:
    """The boundaries that split a bundle: those given, or else those of ``n`` parts of equal width.

    As ``NamespaceBundleFactory.splitBundles``: with boundaries ``n`` is ignored; equal parts are
    (upper - lower) div n wide and the last takes the rest, so the full range gets 0x7fffffff.
    Raises `InvalidName` for a range of width 1 or less, a boundary that is not strictly inside, one
    given twice, or more parts than the range has points.
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
