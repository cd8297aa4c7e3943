"""Random operations on a store and on a dictionary: both must say the same."""

import itertools
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from counterpoise.metadata import BadVersion, EphemeralParent, MetadataStore, NotEmpty, NotFound
from counterpoise.metadata.port import MUST_NOT_EXIST

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
EXPECTED = st.sampled_from([None, MUST_NOT_EXIST, 0, 1, 2])
OPERATIONS = st.one_of(
    st.tuples(st.just("put"), PATHS, st.binary(max_size=3), EXPECTED, st.booleans()),
    st.tuples(st.just("delete"), PATHS, EXPECTED.filter(lambda each: each != MUST_NOT_EXIST)),
    st.tuples(st.just("get"), PATHS),
    st.tuples(st.just("children"), PATHS),
)
ROOTS = itertools.count()


class Model:
    """The obvious store: a dictionary from path to (value, version, ephemeral)."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, bool]] = {}

    def children(self, path: str) -> list[str]:
        below = path + "/"
        return sorted(
            {
                each.removeprefix(below).partition("/")[0]
                for each in self.nodes
                if each.startswith(below)
            }
        )

    def get(self, path: str) -> tuple[bytes, int, bool] | None:
        return self.nodes.get(path)

    def put(self, path: str, value: bytes, expected: int | None, ephemeral: bool) -> object:
        node = self.nodes.get(path)
        if node is not None:
            if expected is not None and expected != node[1]:
                return BadVersion
            self.nodes[path] = (value, node[1] + 1, node[2])
            return node[1] + 1
        if expected not in (None, MUST_NOT_EXIST):
            return BadVersion
        parents = list(itertools.accumulate(path.split("/")[1:-1], lambda a, b: f"{a}/{b}"))
        for parent in parents:
            if self.nodes.get("/" + parent, (b"", 0, False))[2]:
                return EphemeralParent
        for parent in parents:
            self.nodes.setdefault("/" + parent, (b"", 0, False))
        self.nodes[path] = (value, 0, ephemeral)
        return 0

    def delete(self, path: str, expected: int | None) -> object:
        node = self.nodes.get(path)
        if node is None:
            return NotFound
        if expected is not None and expected != node[1]:
            return BadVersion
        if self.children(path):
            return NotEmpty
        del self.nodes[path]
        return None


async def on_store(store: MetadataStore, root: str, operation: tuple[Any, ...]) -> object:
    kind, path, *rest = operation
    path = root + path
    try:
        match kind:
            case "put":
                value, expected, ephemeral = rest
                return await store.put(path, value, expected_version=expected, ephemeral=ephemeral)
            case "delete":
                return await store.delete(path, expected_version=rest[0])
            case "get":
                found = await store.get(path)
                assert await store.exists(path) is (found is not None)
                return None if found is None else (found.value, found.version, found.ephemeral)
            case _:
                return await store.children(path)
    except (BadVersion, NotFound, NotEmpty, EphemeralParent) as error:
        return type(error) if str(error).startswith(f"{path}: ") else error


def on_model(model: Model, operation: tuple[Any, ...]) -> object:
    kind, *rest = operation
    return getattr(model, kind)(*rest)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(operations=st.lists(OPERATIONS, max_size=25))
@example([("put", "/a", b"", None, True), ("put", "/a/b/c", b"", None, False)])
async def test_store_and_dictionary_agree(
    store: MetadataStore, operations: list[tuple[Any, ...]]
) -> None:
    root, model = f"/model-{next(ROOTS)}", Model()
    for operation in operations:
        assert await on_store(store, root, operation) == on_model(model, operation), operation
    for path in sorted(model.nodes):
        assert await on_store(store, root, ("get", path)) == model.get(path)
