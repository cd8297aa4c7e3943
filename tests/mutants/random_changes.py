"""Random changes of a room: Cosmic Ray's, and statements that are left out.

Changes of annotations and protocols are none, for nothing evaluates them here; neither are changes of
what keeps a class frozen. What is only logged is left alone.
"""

import ast
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import ndiff
from functools import partial
from pathlib import Path

from tests.mutants.reach import measure
from tests.mutants.warm import Outcome, outcome_of


@dataclass(frozen=True, slots=True)
class Room:
    """What is changed, and the tests that are to notice."""

    tests: list[str]
    """Arguments of pytest."""
    without: tuple[str, ...] = ()
    """Files and folders below the room that a sweep of its own changes, or none."""


_QUICK = ["-m", "not spark and not zookeeper and not browser"]
_OF_PIPELINE = (
    "advise backtest drive fleet gold notify prometheus report tables watch watchdog".split()
)
"""Rooms of the pipeline that are swept by themselves: a whole sweep would take hours."""
_WITHOUT_SPARK_OR_ROOMS = [
    f"--ignore=tests/pipeline/{each}"
    for each in [*_OF_PIPELINE, "test_fold_of_shards.py", "test_kills.py", "test_short_soak.py"]
]
_LOAD = [
    "tests/load",
    "tests/broker/load",
    "tests/broker/bundles/test_placement.py",
    "tests/decide/balancing/test_by_stores.py",
]
_SETTINGS = "tests/app/settings/test_table.py"
"""Holds every room's settings against Pulsar's."""
_OF_LINKS = ["tests/broker/bundles/test_topic_records.py", "tests/broker/bundles/test_unloaders.py"]
_CHANNEL = ["tests/ownership", "tests/broker/bundles", *_QUICK]

ROOMS: dict[str, Room] = {
    "quota": Room(["tests/quota", "tests/broker/limits"]),
    "load": Room(_LOAD),
    "decide/advice": Room(["tests/decide/advice", "tests/pipeline/drive", *_QUICK]),
    "decide/balancing": Room(
        [_SETTINGS, "tests/decide/balancing", "tests/pipeline/drive", *_QUICK]
    ),
    "decide/shedding": Room(
        [_SETTINGS, "tests/decide/shedding", "tests/decide/balancing", *_QUICK]
    ),
    "decide/placement": Room(
        [_SETTINGS, "tests/decide/placement", "tests/decide/balancing", *_QUICK]
    ),
    "decide/splitting": Room([_SETTINGS, "tests/decide/splitting"]),
    "decide/filters": Room(["tests/decide/filters", "tests/decide/balancing", *_QUICK]),
    "decide/watchdog": Room(["tests/decide/watchdog", "tests/pipeline/watchdog", *_QUICK]),
    "storage": Room([_SETTINGS, "tests/storage", "tests/broker/topic/test_damage.py"]),
    "ownership/channel": Room(_CHANNEL),
    "ownership": Room(_CHANNEL, ("channel",)),
    "metadata": Room(["tests/metadata"]),
    "bookkeeper": Room(["tests/bookkeeper", "tests/app/test_storage.py"]),
    "names": Room(["tests/names"]),
    "picture": Room(["tests/picture"]),
    "console": Room(["tests/console", *_QUICK]),
    "wire": Room(["tests/wire"]),
    "faults": Room(["tests/faults"]),
    "security": Room([_SETTINGS, "tests/security", *_QUICK]),
    "admin": Room(["tests/admin", *_QUICK]),
    "app": Room(["tests/app", *_QUICK]),
    "broker/topic": Room([_SETTINGS, "tests/broker/topic"]),
    "broker/connection": Room([_SETTINGS, "tests/broker/connection"]),
    "broker/bundles": Room(["tests/broker/bundles", *_QUICK]),
    "broker/limits": Room([_SETTINGS, "tests/broker/limits"]),
    "broker/load": Room([_SETTINGS, "tests/broker/load", *_QUICK]),
    "broker/base": Room(["tests/broker/base", *_QUICK]),
    "broker/namespaces": Room(
        [_SETTINGS, "tests/broker/namespaces", "tests/broker/bundles", *_QUICK]
    ),
    "broker/peers": Room(["tests/broker/peers", *_OF_LINKS, "tests/broker/load", *_QUICK]),
    "broker/schemas": Room(["tests/broker/schemas"]),
    "broker/transactions": Room(["tests/broker/transactions"]),
    **{f"pipeline/{each}": Room([f"tests/pipeline/{each}", *_QUICK]) for each in _OF_PIPELINE},
    # All of its tests are on Spark.
    "pipeline/gold": Room(["tests/pipeline/gold"]),
    "pipeline": Room(
        ["tests/pipeline", *_QUICK, *_WITHOUT_SPARK_OR_ROOMS],
        (*_OF_PIPELINE, "stream", "runner.py"),
    ),
}

_SECONDS = 30.0
"""What the tests of one change may take beyond three times what they took unchanged."""
_SAME = ("_Is_Eq", "_IsNot_NotEq")
"""Whatever is one and the same is also equal; of arrays, where that is not so, it raises."""
_PYTEST = [
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:schemathesis",
    # What one test leaves to the collector comes up in another, changed or not.
    "-p",
    "no:unraisableexception",
    "-p",
    "tests.mutants.in_a_hurry",
]


@dataclass(frozen=True, slots=True)
class Change:
    """Another text for a file, and the lines that it is about."""

    path: Path
    lines: range
    text: Callable[[], str | None]
    """None: it cannot be made."""


def try_some(
    copy: Path, room: str, count: int, until: float, rng: random.Random, *, env: dict[str, str]
) -> int:
    """Change a room ``count`` times; how many changes no test noticed and no note explains."""
    why = explained()
    try:
        reach = measure(copy, room, ROOMS[room].tests, env)
    except RuntimeError as error:
        print(f"{room}: not judged by its tests: {error}", flush=True)
        return 1
    package = copy / "src" / "counterpoise"
    left_out = [package / room / each for each in ROOMS[room].without]
    modules = sorted((package / room).rglob("*.py"))
    places = _places([it for it in modules if not {it, *it.parents}.intersection(left_out)])
    chosen = rng.sample(places, min(count, len(places)))
    noticed = overdue = known = unexplained = 0
    for place in chosen:
        if time.monotonic() > until:
            break
        change = rng.choice(place)
        tests = reach.tests(change.path, change.lines)
        before, after = change.path.read_text(), change.text()
        if after is None:
            continue
        if tests:
            with _changed(change.path, before, after):
                within = _SECONDS + 3 * reach.takes(tests)
                outcome = outcome_of([*_PYTEST, *tests], copy, env, within)
            if outcome is not Outcome.PASSED:
                noticed += 1
                overdue += outcome is Outcome.OVERDUE
                continue
        said = [
            line.rstrip()
            for line in ndiff(before.splitlines(), after.splitlines())
            if line[0] in "+-"
        ]
        file = str(change.path.relative_to(package))
        if any(about in (file, "several files") and lines.issuperset(said) for about, lines in why):
            known += 1
            continue
        unexplained += 1
        found = "SURVIVED" if tests else "UNTESTED"
        print(f"{found} {file}:{change.lines.start}", *said, sep="\n", flush=True)
    print(
        f"{room}: {noticed} of {noticed + known + unexplained} random changes noticed"
        f" ({overdue} because the tests did not end), {known} explained ({len(places)} places)",
        flush=True,
    )
    return unexplained


def explained() -> list[tuple[str, frozenset[str]]]:
    """Of each explanation in ``survivors.txt`` the file and the lines that it is about."""
    _, *paragraphs = Path(__file__).with_name("survivors.txt").read_text().split("\n\n")
    split = [each.splitlines() for each in paragraphs]
    return [(head.partition(":")[0], frozenset(lines)) for head, *lines in split]


@contextlib.contextmanager
def _changed(path: Path, before: str, after: str) -> Iterator[None]:
    path.write_text(after)
    try:
        yield
    finally:
        path.write_text(before)


def _places(modules: Sequence[Path]) -> list[list[Change]]:
    """What can be changed, by place: a place with ten possible changes counts no more than one."""
    found: dict[tuple[Path, int, int], list[Change]] = defaultdict(list)
    for path in modules:
        if path.name.endswith("_pb2.py"):
            continue
        source = path.read_text()
        tree = ast.parse(source)
        left_alone = list(_left_alone(tree))
        for line, column, change in [*_of_cosmic_ray(path), *_left_out(path, source, tree)]:
            if not any(start <= (line, column) < end for start, end in left_alone):
                found[path, line, column].append(change)
    return [found[place] for place in sorted(found)]


def _of_cosmic_ray(path: Path) -> Iterator[tuple[int, int, Change]]:
    from cosmic_ray import plugins
    from cosmic_ray.commands.init import init
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.work_db import WorkDB, use_db

    with use_db(":memory:", WorkDB.Mode.create) as work:
        init([path], work, {})
        mutations = [item.mutations[0] for item in work.pending_work_items]

    def text(name: str, occurrence: int) -> str | None:
        try:
            with use_mutation(path, plugins.get_operator(name)(), occurrence) as (_, after):
                return str(after)
        except AttributeError:
            # It cannot replace the name of an exception that has a dot.
            return None

    for each in sorted(mutations, key=repr):
        if each.operator_name.endswith(_SAME):
            continue
        line, column = each.start_pos
        lines = range(line, each.end_pos[0] + 1)
        name, occurrence = each.operator_name, each.occurrence
        yield line, column, Change(path, lines, partial(text, name, occurrence))


def _left_out(path: Path, source: str, tree: ast.Module) -> Iterator[tuple[int, int, Change]]:
    """One statement becomes ``pass``; only those whose absence leaves sense behind."""
    lines = source.splitlines(keepends=True)

    def text(statement: ast.stmt) -> str:
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        indent = lines[first][: statement.col_offset]
        return "".join([*lines[:first], f"{indent}pass\n", *lines[last:]])

    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
                pass
            case ast.Raise() | ast.Return() if node.col_offset > 8:
                pass
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                pass
            # An argument that is not needed changes nothing.
            case ast.Delete(targets=[ast.Attribute() | ast.Subscript()]):
                pass
            case _:
                continue
        place = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        yield node.lineno, node.col_offset, Change(path, place, partial(text, node))


def _left_alone(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans whose change changes nothing, or only what is logged."""
    for node in ast.walk(tree):
        spans: list[ast.expr | ast.stmt | None] = []
        match node:
            case ast.ClassDef(bases=bases) if any("Protocol" in ast.unparse(b) for b in bases):
                # What implements one says so by its shape alone.
                spans = [node]
            case ast.ClassDef(decorator_list=[ast.Call(keywords=keywords)]):
                # They keep us from mistakes; nothing relies on them at run time.
                spans = [each.value for each in keywords if each.arg in ("frozen", "slots")]
            case ast.AnnAssign() | ast.arg():
                spans = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                spans = [node.returns]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "_log"))):
                spans = [node]
        for span in spans:
            if span is not None and span.end_lineno is not None:
                end = (span.end_lineno, span.end_col_offset or 0)
                yield (span.lineno, span.col_offset), end
