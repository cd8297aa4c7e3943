"""Puts the questions of ownership machines to a metadata store."""

from __future__ import annotations

from typing import Final

from counterpoise.metadata import BadVersion, MetadataStore
from counterpoise.metadata.errors import NotFound
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.ownership.port import (
    Created,
    CreateNode,
    Differs,
    Exists,
    Found,
    Question,
    ReadNode,
    Removed,
    RemoveNode,
    WriteNode,
    WriteRecord,
    Written,
)

_ROUNDS: Final = 8
"""How often a node is written anew that others write meanwhile."""


async def _write_own(store: MetadataStore, path: str, value: bytes) -> None:
    """Write an ephemeral node that goes with this session, whoever made what stands there."""
    for _ in range(_ROUNDS):
        stored = await store.get(path)
        try:
            if stored is not None and not stored.mine:
                # Written over, it would outlive whoever it speaks for.
                await store.delete(path, expected_version=stored.version)
                stored = None
            expected = MUST_NOT_EXIST if stored is None else stored.version
            await store.put(path, value, expected_version=expected, ephemeral=True)
        except (BadVersion, NotFound):
            continue
        return
    raise BadVersion(path)


async def ask_store(store: MetadataStore, question: Question) -> object:
    """Do what a question about a node asks for, and answer it; raises `MetadataError`."""
    match question:
        case CreateNode(path, value):
            try:
                version = await store.put(
                    path, value, expected_version=MUST_NOT_EXIST, ephemeral=True
                )
            except BadVersion:
                return Exists()
            return Created(version)
        case WriteNode(path, value):
            await _write_own(store, path, value)
            return Written()
        case WriteRecord(path, value, version):
            expected = MUST_NOT_EXIST if version is None else version
            try:
                return Created(await store.put(path, value, expected_version=expected))
            except (BadVersion, NotFound):
                return Differs()
        case ReadNode(path):
            stored = await store.get(path)
            if stored is None:
                return Found(None)
            return Found(stored.value, stored.version, stored.mine)
        case RemoveNode(path, version):
            try:
                await store.delete(path, expected_version=version)
            except NotFound:
                return Removed()
            except BadVersion:
                return Differs()
            return Removed()
    raise AssertionError(f"a metadata store has no answer to {question}")
