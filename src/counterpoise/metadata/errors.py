"""The errors of a metadata store, each with the path that it concerns."""


class MetadataError(Exception):
    """The base class of the errors of metadata stores."""


class InvalidPath(MetadataError, ValueError):
    """A text is not a path of the metadata store, ``/a/b/c``."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"not a metadata path: {path!r}; a path is /segment/segment, without empty segments"
        )


class NodeError(MetadataError):
    """The state of a node does not allow the operation."""

    sentence = "{path}: refused"

    def __init__(self, path: str) -> None:
        super().__init__(self.sentence.format(path=path))
        self.path = path


class NotFound(NodeError):
    """The node does not exist."""

    sentence = "{path}: no such metadata node"


class BadVersion(NodeError):
    """The node is not at the version the writer expected: another client wrote it first."""

    sentence = "{path}: another client changed this metadata node in the meantime"


class NotEmpty(NodeError):
    """A node with children cannot be deleted."""

    sentence = "{path}: the metadata node still has children"


class EphemeralParent(NodeError):
    """An ephemeral node cannot have children."""

    sentence = "{path}: a metadata node above it is ephemeral, and cannot have children"


class ValueTooLarge(NodeError):
    """A node's value has more bytes than the store takes."""

    sentence = "{path}: the value of this metadata node is larger than ZooKeeper takes (1 MB)"


class StoreUnavailable(MetadataError):
    """The store cannot be reached, or the session is over; a write may or may not have happened."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"the metadata store did not answer ({what}): {why}")
