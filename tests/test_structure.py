"""The structure as a test: no circles among files, and no definition that nothing uses."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import vulture

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "counterpoise"

#: Imports (which file, of which) that close a circle on purpose, and why.
CIRCLES: Mapping[tuple[str, str], str] = {
    (
        "counterpoise",
        "counterpoise.app.clusters.embedded",
    ): "for its types; it is imported when first used",
    ("counterpoise.broker.connection.shared_parts", "counterpoise.broker.connection.connection"): (
        "for a type: it counts the connections that share it"
    ),
    ("counterpoise.storage.files.jobs", "counterpoise.storage.files.log"): (
        "for a type: a job is handed the log that it works for"
    ),
    ("counterpoise.storage.files.log", "counterpoise.storage.files.store"): (
        "for a type: a log is handed the store that opened it"
    ),
}

#: Called from outside by this name, and by whom. A name that is gone must go from here.
CALLED_FROM_OUTSIDE: Mapping[str, str] = {
    "__getattr__": "Python, for a lazy attribute of the package",
    "add_broker": "tests with an embedded cluster",
    "assert_moved": "tests with an embedded cluster",
    "assert_nothing_lost": "tests with an embedded cluster",
    "assert_redelivered": "tests with an embedded cluster",
    "clear_faults": "tests with an embedded cluster",
    "client_certificate": "tests with an embedded cluster",
    "connection_lost": "asyncio.Protocol",
    "connection_made": "asyncio.Protocol",
    "data_received": "asyncio.Protocol",
    "disk_full": "tests with an embedded cluster",
    "pause_writing": "asyncio.Protocol",
    "pulsar_cluster": "pytest, as a fixture",
    "pulsar_cluster_module": "pytest, as a fixture",
    "pulsar_namespace": "pytest, as a fixture",
    "resume_writing": "asyncio.Protocol",
    "serialize": "kazoo, for a request of our own",
    "slow_disk": "tests with an embedded cluster",
    "stop_broker": "tests with an embedded cluster",
    "trust_certs": "tests with an embedded cluster",
    "waiting_to_be_read": "tests: what a connection holds cannot be seen from outside",
}
#: Judged against Pulsar, and not yet part of any program: what is missing. It must shrink.
NOT_CONNECTED: Mapping[str, str] = {}
#: What an unused one of is a definition that nothing calls; unused fields and members of
#: enumerations are part of a record or of a protocol.
KINDS = frozenset({"class", "function", "method", "property"})


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        parts = ("counterpoise", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ours that a file imports when it is loaded, or only for its types."""
    for node in at_load(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def at_load(node: ast.AST) -> Iterator[ast.AST]:
    """Every node outside functions: an import inside one happens later, and only if need be."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from at_load(child)


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle in order, its first named again at its end; empty without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_files_do_not_import_each_other_in_circles() -> None:
    known = modules()
    graph = {
        name: {other for other in imported(path, known) if other in known and other != name}
        for name, path in known.items()
    }
    for importer, other in CIRCLES:
        assert other in graph[importer], "an import that is explained here is gone"
        graph[importer].discard(other)
    assert not circle_in(graph)


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set[str]()}
    assert set(circle_in(graph)) == set("abc")


def test_every_definition_is_used() -> None:
    """By the package itself: what only a test calls is as dead as what is never called.

    The handler of a request is called by its route.
    """
    looked = vulture.Vulture(ignore_decorators=["@routes.*"])
    looked.scavenge([str(PACKAGE)], exclude=["*_pb2.py"])
    unused = {
        item.name: f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}"
        for item in looked.get_unused_code(min_confidence=60)
        if item.typ in KINDS
    }
    known = CALLED_FROM_OUTSIDE.keys() | NOT_CONNECTED.keys()
    dead = [where for name, where in sorted(unused.items()) if name not in known]
    assert not dead, "nothing uses\n" + "\n".join(dead)
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules().values())
    gone = sorted(name for name in known if f"def {name}(" not in text)
    assert not gone, f"listed here, and not there any more: {gone}"
