"""The paths of ledgers' metadata in the metadata store (``HierarchicalLedgerManager``)."""

import re
from collections.abc import AsyncIterator, Iterable
from typing import Final

from counterpoise.bookkeeper.errors import NotThisCluster
from counterpoise.metadata.port import MetadataReader

DEFAULT_ROOT: Final = "/ledgers"
SHORT_IDS: Final = (1 << 31) - 1
"""Ids below this have the short path; Java's ``Integer.MAX_VALUE`` has the long one."""
MANAGER_FACTORY: Final = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
_LAYOUT_VERSION: Final = "2"
_SHORT: Final = re.compile(r"(\d\d)/(\d{4})/L(\d{4})")
_LONG: Final = re.compile(r"(\d{3})/(\d{4})/(\d{4})/(\d{4})/L(\d{4})")
_DIGITS: Final = (re.compile(r"\d\d"), re.compile(r"\d{3}"), re.compile(r"\d{4}"))
_LEAF: Final = re.compile(r"L\d{4}")


def ledger_path(root: str, ledger: int) -> str:
    """The path of a ledger's metadata node: ``/ledgers/00/0000/L0001`` for ledger 1."""
    if ledger < 0:
        raise ValueError(f"ledger ids are not negative: {ledger}")
    if ledger < SHORT_IDS:
        text = f"{ledger:010d}"
        return f"{root}/{text[:2]}/{text[2:6]}/L{text[6:]}"
    text = f"{ledger:019d}"
    return f"{root}/{text[:3]}/{text[3:7]}/{text[7:11]}/{text[11:15]}/L{text[15:]}"


def ledger_at(root: str, path: str) -> int | None:
    """The id of the ledger whose node has this path; None for other paths."""
    below = path.removeprefix(f"{root}/")
    found = _SHORT.fullmatch(below) or _LONG.fullmatch(below)
    if found is None:
        return None
    ledger = int("".join(found.groups()))
    return ledger if ledger_path(root, ledger) == path else None


async def check_layout(store: MetadataReader, root: str) -> None:
    """Raise `NotThisCluster` unless ledgers below ``root`` have the supported layout."""
    names = await store.children(root)
    if not names:
        raise NotThisCluster(
            f"the metadata store has no {root}: give the chroot behind the address of ZooKeeper, "
            "or where bookies keep ledgers (zkLedgersRootPath) by --ledgers-root"
        )
    layout = await store.get(f"{root}/LAYOUT")
    if layout is None:
        # A cluster that Pulsar alone has set up has none. Its manager is the hierarchical one.
        return
    version, _, rest = layout.value.decode("utf-8", "replace").partition("\n")
    factory = rest.rpartition(":")[0] or rest
    if version.strip() != _LAYOUT_VERSION or factory.strip() != MANAGER_FACTORY:
        raise NotThisCluster(
            f"{root}/LAYOUT names {factory.strip()[:200]!r}, layout {version.strip()[:20]!r}: only "
            f"{MANAGER_FACTORY}, layout {_LAYOUT_VERSION}, is read"
        )


async def ledger_ids(store: MetadataReader, root: str) -> AsyncIterator[list[int]]:
    """All ledgers in ascending order, those of one parent node (at most 10,000) at a time."""
    names = await store.children(root)
    for depth, digits in ((1, _DIGITS[0]), (3, _DIGITS[1])):
        for name in _matching(digits, names):
            async for parent in _parents(store, f"{root}/{name}", depth):
                leaves = _matching(_LEAF, await store.children(parent))
                found = (ledger_at(root, f"{parent}/{leaf}") for leaf in leaves)
                ids = [each for each in found if each is not None]
                if ids:
                    yield ids


async def _parents(store: MetadataReader, path: str, depth: int) -> AsyncIterator[str]:
    """The paths of the nodes ``depth`` levels below ``path``."""
    if depth == 0:
        yield path
        return
    for name in _matching(_DIGITS[2], await store.children(path)):
        async for each in _parents(store, f"{path}/{name}", depth - 1):
            yield each


def _matching(pattern: re.Pattern[str], names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if pattern.fullmatch(name))
