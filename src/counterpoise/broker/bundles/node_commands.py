"""Carries out the ownership machines' commands, such as `CreateNode`, on a metadata store."""

from typing import Final

from counterpoise.metadata import BadVersion, MetadataStore
from counterpoise.metadata.errors import NotFound
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.ownership import events

_ROUNDS: Final = 8
"""How many times to try to write a node that other sessions write at the same time."""


async def _write_own(store: MetadataStore, path: str, value: bytes) -> None:
    """Write an ephemeral node of this session, replacing another session's."""
    for _ in range(_ROUNDS):
        stored = await store.get(path)
        try:
            if stored is not None and not stored.mine:
                # If it were overwritten, it would still end with the session of its creator.
                await store.delete(path, expected_version=stored.version)
                stored = None
            expected = MUST_NOT_EXIST if stored is None else stored.version
            await store.put(path, value, expected_version=expected, ephemeral=True)
        except (BadVersion, NotFound):
            continue
        return
    raise BadVersion(path)


async def execute(store: MetadataStore, command: events.Command) -> object:
    """Execute a state machine's command; returns its result. Raises `MetadataError`."""
    match command:
        case events.CreateNode(path, value):
            try:
                version = await store.put(
                    path, value, expected_version=MUST_NOT_EXIST, ephemeral=True
                )
            except BadVersion:
                return events.NodeExists()
            return events.NodeCreated(version)
        case events.WriteNode(path, value):
            await _write_own(store, path, value)
            return events.NodeWritten()
        case events.WriteRecord(path, value, version):
            expected = MUST_NOT_EXIST if version is None else version
            try:
                return events.NodeCreated(await store.put(path, value, expected_version=expected))
            except (BadVersion, NotFound):
                return events.VersionDiffers()
        case events.ReadNode(path):
            stored = await store.get(path)
            if stored is None:
                return events.NodeFound(None)
            return events.NodeFound(stored.value, stored.version, stored.mine)
        case events.RemoveNode(path, version):
            try:
                await store.delete(path, expected_version=version)
            except NotFound:
                return events.NodeRemoved()
            except BadVersion:
                return events.VersionDiffers()
            return events.NodeRemoved()
    raise AssertionError(f"a metadata store has no answer to {command}")
