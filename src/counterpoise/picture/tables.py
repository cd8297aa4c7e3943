"""A picture of a cluster as rows of tables, for keyboards, screen readers and exact figures."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from counterpoise.load.usage import RESOURCES
from counterpoise.picture.cluster_picture import NO_OWNER, ClusterPicture

T = TypeVar("T")
PAGE_ROWS = 20


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """A broker as a line of the console's table."""

    broker: str
    bytes_per_s: float
    messages_per_s: float
    ratio: float
    """The broker's bytes/s ÷ the mean of all brokers."""
    bundles: int
    topics: int
    usage: float
    """The use of the broker's most used resource, in percent."""
    resource: str
    """The name of the broker's most used resource."""
    silent: str
    """Why the broker did not answer; empty if it did."""


def broker_lines(picture: ClusterPicture) -> tuple[BrokerLine, ...]:
    """Every broker, most loaded first; those that never responded last."""
    view = picture.view
    flows, messages = (
        picture.per_broker(picture.bundle_bytes),
        picture.per_broker(picture.bundle_messages),
    )
    owned = np.bincount(picture.owners[picture.owners != NO_OWNER], minlength=len(view.brokers))
    usage = np.nan_to_num(view.broker.usage)
    rows = [
        BrokerLine(
            broker=name,
            bytes_per_s=float(flows[i]),
            messages_per_s=float(messages[i]),
            ratio=float(picture.ratios[i]),
            bundles=int(owned[i]),
            topics=int(view.broker.topics[i]),
            usage=float(usage[i].max()),
            resource=RESOURCES[int(usage[i].argmax())],
            silent=picture.silent.get(name, ""),
        )
        for i, name in enumerate(view.brokers)
    ]
    rows.sort(key=lambda row: (-row.bytes_per_s, row.broker))
    unseen = sorted(picture.silent.keys() - set(view.brokers))
    rows += [BrokerLine(name, 0, 0, 0, 0, 0, 0, "", picture.silent[name]) for name in unseen]
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class ListedPage(Generic[T]):
    """One page of the rows that match a search, and the number of all matches."""

    rows: tuple[T, ...]
    count: int
    page: int
    """The number of the page, from 0 to that of the last page."""


def broker_page(
    picture: ClusterPicture, search: str = "", page: int = 0, rows: int = PAGE_ROWS
) -> ListedPage[BrokerLine]:
    """A page of the brokers whose name contains all words of `search`, most loaded first.

    The word ``silent`` finds brokers that do not respond.
    """
    words = search.lower().split()
    found = [
        row
        for row in broker_lines(picture)
        if all(word in f"{row.broker} {'silent' if row.silent else ''}".lower() for word in words)
    ]
    page = max(0, min(page, (len(found) - 1) // rows))
    return ListedPage(tuple(found[page * rows : (page + 1) * rows]), len(found), page)


@dataclass(frozen=True, slots=True)
class BundleLine:
    """A bundle as a line of the console's table."""

    bundle: str
    owner: str
    """The broker that owns the bundle; empty if no broker reports it."""
    bytes_per_s: float
    messages_per_s: float
    topics: int


def bundle_page(
    picture: ClusterPicture, search: str = "", page: int = 0, rows: int = PAGE_ROWS
) -> ListedPage[BundleLine]:
    """A page of the bundles whose name or owner contains all words of `search`, largest first."""
    view, words = picture.view, search.lower().split()
    chosen = np.arange(len(view.bundles))
    if words:
        brokers = [name.lower() for name in view.brokers]
        owners = [brokers[i] if i != NO_OWNER else "" for i in picture.owners.tolist()]
        names = (name.lower() for name in view.bundles)
        texts = (f"{name} {owner}" for name, owner in zip(names, owners, strict=True))
        chosen = np.flatnonzero([all(word in text for word in words) for text in texts])
    order = chosen[np.argsort(-picture.bundle_bytes[chosen], kind="stable")]
    page = max(0, min(page, (len(order) - 1) // rows))
    found = [bundle_line(picture, row) for row in order[page * rows : (page + 1) * rows].tolist()]
    return ListedPage(tuple(found), len(order), page)


def bundle_line(picture: ClusterPicture, row: int) -> BundleLine:
    """One bundle's line, by its row in the view."""
    owner = int(picture.owners[row])
    return BundleLine(
        picture.view.bundles[row],
        "" if owner == NO_OWNER else picture.view.brokers[owner],
        float(picture.bundle_bytes[row]),
        float(picture.bundle_messages[row]),
        int(picture.view.bundle.topics[row]),
    )
