"""The structure as a test: directions between rooms, what pure rooms may import, no circles among
files, and no definition that nothing uses.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import vulture

from tests.sources import PACKAGE, ROOT, Source, source, sources

# What each room may import besides itself: docs/ARCHITECTURE.md, "The rooms".
MAY_IMPORT: dict[str, frozenset[str]] = {
    "names": frozenset(),
    "wire": frozenset({"names"}),
    "faults": frozenset({"names", "wire"}),
    "quota": frozenset({"names"}),
    "load": frozenset({"names"}),
    "decide": frozenset({"names", "load"}),
    "ownership": frozenset({"names"}),
    "metadata": frozenset({"names"}),
    "storage": frozenset({"names", "wire", "metadata", "bookkeeper", "security"}),
    "bookkeeper": frozenset({"names", "wire", "metadata"}),
    "security": frozenset({"names"}),
    "broker": frozenset(
        "names wire faults quota ownership load decide metadata storage security".split()
    ),
    "admin": frozenset({"names", "broker", "security"}),
    "pipeline": frozenset({"names", "load", "decide", "ownership", "security"}),
    "picture": frozenset({"names", "load", "decide"}),
    "console": frozenset({"names", "load", "decide", "picture", "pipeline", "security"}),
}
# What each folder of `broker/` may import of its others besides `base/`: docs/ARCHITECTURE.md.
BROKER_MAY_IMPORT: dict[str, frozenset[str]] = {
    "base": frozenset(),
    "limits": frozenset(),
    "namespaces": frozenset(),
    "peers": frozenset(),
    "schemas": frozenset(),
    "transactions": frozenset({"peers"}),
    "topic": frozenset({"limits", "transactions"}),
    "load": frozenset({"peers", "topic"}),
    "bundles": frozenset({"load", "namespaces", "peers", "topic"}),
    "connection": frozenset({"bundles", "namespaces", "schemas", "topic", "transactions"}),
}
# Where a room shows others one face, they import no other module of it.
FACES = {("admin", "broker"): "counterpoise.broker.face"}
# Rooms that decide and transform only: time, randomness and the world are arguments there.
PURE = frozenset({"names", "wire", "faults", "quota", "load", "decide", "ownership", "picture"})
IMPURE_MODULES = frozenset(
    "asyncio datetime kazoo logging multiprocessing os pathlib psutil pyspark random selectors "
    "shutil socket subprocess sys tempfile threading time urllib uvloop".split()
)
# Fronts of a pure room: the one file each that may know a clock and an event loop, so that the room
# can be used alone. Nothing else of the room imports it, but for the names its package gives.
FRONTS = frozenset({"quota/aio.py"})
FRONT_MODULES = tuple(f"counterpoise.{it.removesuffix('.py').replace('/', '.')}" for it in FRONTS)
# A generator that was seeded elsewhere may be named; text may be quoted.
PURE_PARTS = ("random.Random", "urllib.parse.")

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
"""Imports (which file, of which) that close a circle on purpose, and why."""

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
    "find_spec": "Python, as a finder of modules",
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
"""Called from outside by this name, and by whom. A name that is gone must go from here."""
NOT_CONNECTED: Mapping[str, str] = {}
"""Judged against Pulsar, and not yet part of any program: what is missing. It must shrink."""
KINDS = frozenset({"class", "function", "method", "property"})
"""What an unused one of is a definition that nothing calls; unused fields and members of
enumerations are part of a record or of a protocol."""


def misdirected(it: Source) -> Iterator[str]:
    """What a file imports against the direction of the rooms."""
    pure = it.room in PURE and it.where not in FRONTS
    for line, name in it.imports if it.room != "app" else ():
        parts = name.split(".")
        at = f"{it.where} line {line}"
        if parts[0] == "counterpoise" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
            if parts[1] != it.room and parts[1] not in MAY_IMPORT[it.room]:
                yield f"{at}: room {it.room!r} may not import room {parts[1]!r}"
            elif not name.startswith(f"{FACES.get((it.room, parts[1]), name)}".rstrip(".")):
                yield f"{at}: {it.room!r} knows of {parts[1]!r} only its face"
        elif pure and parts[0] in IMPURE_MODULES and not name.startswith(PURE_PARTS):
            yield f"{at}: pure room {it.room!r} may not import {name!r}"
        if name.startswith(FRONT_MODULES) and it.name != "__init__.py" and it.room in PURE:
            yield f"{at}: {name} is a front: a pure room may not lean on it"


def test_imports_follow_the_direction_of_the_rooms() -> None:
    broken = [each for it in sources() for each in misdirected(it)]
    assert not broken, "\n".join(broken)


def misdirected_in_broker(it: Source) -> Iterator[str]:
    """The same of the broker's folders: only the files beside them may import everything."""
    if it.room != "broker" or it.where.count("/") == 1:
        return
    folder = it.where.split("/")[1]
    may = BROKER_MAY_IMPORT[folder] | {folder, "base"}
    for line, name in it.imports:
        if name.startswith("counterpoise.broker.") and name.split(".")[2] not in may:
            yield f"{it.where} line {line}: {folder!r} may not import {name!r}"


def test_imports_follow_the_direction_of_the_brokers_folders() -> None:
    broken = [each for it in sources() for each in misdirected_in_broker(it)]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("where", "text", "found"),
    [
        ("quota/x.py", "import time", 1),
        ("quota/aio.py", "import time", 0),
        ("quota/x.py", "from random import Random", 0),
        ("quota/x.py", "from counterpoise.names import topic", 0),
        ("quota/x.py", "from ..load import fold", 1),
        ("load/x.py", "def late():\n    from counterpoise.quota.aio import Limiter", 2),
        ("admin/x.py", "from counterpoise.broker.face import Face", 0),
        ("admin/x.py", "from counterpoise.broker.broker import Broker", 1),
        ("app/x.py", "from counterpoise.broker.broker import Broker", 0),
        ("broker/topic/x.py", "from counterpoise.broker.limits import rates", 0),
        ("broker/topic/x.py", "from counterpoise.broker.bundles import unload", 1),
        ("broker/x.py", "from counterpoise.broker.bundles import unload", 0),
    ],
)
def test_an_import_against_the_direction_is_found(where: str, text: str, found: int) -> None:
    it = source(where, text)
    assert len([*misdirected(it), *misdirected_in_broker(it)]) == found


def test_no_folder_of_the_broker_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(BROKER_MAY_IMPORT).prepare()


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
