"""Style as a test: directions between rooms, what pure rooms may import, sizes, names, words."""

import ast
import re
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from counterpoise.app.main import VERBS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "counterpoise"

# What each room may import besides itself: docs/ARCHITECTURE.md, "The house".
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
    "pipeline": frozenset({"names", "load", "decide", "security"}),
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
    "connection": frozenset({"bundles", "namespaces", "topic", "transactions"}),
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
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400
FORBIDDEN_TEXT = {
    re.compile(r"\bFIXME\b|\bXXX\b"): "finish it, or say in a sentence what is left and why",
    re.compile(r"#\s*type:\s*ignore(?!\[)"): "name the error: `# type: ignore[code]`",
    re.compile(r"time\.sleep\(0?\.\d"): "await the event instead of sleeping",
}

#: Words that readers have to translate, and what to write instead: the terms of `docs/GLOSSARY.md`.
#: Names are split at capitals and underscores, so `LetGo` and `let_go` are found as well.
WORDS = {
    "heirs?": "successor, or destination",
    "told|tells?|telling": "report, notify, publish, return, answer or log",
    "nobody|somebody": "name it: no broker, no client, another broker",
    "whoever|whomever": "the component that acts: the broker that …",
    "whence": "where … from",
    "anew": "again",
    "reigns?": "epoch",
    "mend(?:s|ed|ing)?": "repair, or fix",
    "bark(?:s|ed|ing)?": "an invariant is violated, or a judge fails",
    "scenes?|sights?": "snapshot, observation or view",
    "whereabouts": "location, or lookup result",
    "deeds?": "actions",
    "doors?": "listener, or socket",
    "guests?": "HTTP client",
    "town": "test cluster",
    "(?:let|lets|letting) go": "release; `is_released`",
    "for want of": "without",
    "of a time to come": "future",
}
_WORD = re.compile(
    "|".join(f"(?P<w{n}>\\b(?:{word})\\b)" for n, word in enumerate(WORDS)), re.IGNORECASE
)
#: Where a word stays (all words where it is empty), and why.
WORDS_STAY = {
    ("src/counterpoise/pipeline/tables/data_files.py", "tell"): "the method of Python's files",
    ("src/counterpoise/pipeline/gold/write.py", "tell"): "the method of Python's files",
    ("src/counterpoise/pipeline/tables/old_layout.py", "reigns"): "a directory of older histories",
}
#: File names that recur because every folder has such a file for the same purpose.
FILES_RECUR = frozenset("__init__ errors memory options policies records registry".split())
#: Folders whose files are named after a verb, a resource or a subject that has a name already.
NAMED_AFTER = ("app/", "admin/rest/", "admin/metrics/", "console/parts/")
FILE_NAMES_MAX = 3


def sources() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if not p.name.endswith("_pb2.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else "app"


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything the file imports, relative imports resolved."""
    package = ("counterpoise", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join((*base, *([node.module] if node.module else [])))
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_direction_of_the_rooms(path: Path) -> None:
    room = room_of(path)
    if room == "app":
        return
    pure = room in PURE and str(path.relative_to(PACKAGE)) not in FRONTS
    broken = []
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == "counterpoise" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
            if parts[1] != room and parts[1] not in MAY_IMPORT[room]:
                broken.append(f"line {line}: room {room!r} may not import room {parts[1]!r}")
            elif not name.startswith(f"{FACES.get((room, parts[1]), name)}".rstrip(".")):
                broken.append(f"line {line}: {room!r} knows of {parts[1]!r} only its face")
        elif pure and parts[0] in IMPURE_MODULES and not name.startswith(PURE_PARTS):
            broken.append(f"line {line}: pure room {room!r} may not import {name!r}")
        if name.startswith(FRONT_MODULES) and path.name != "__init__.py" and room in PURE:
            broken.append(f"line {line}: {name} is a front: a pure room may not lean on it")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    "path",
    [path for path in sources() if path.relative_to(PACKAGE).parts[:-1][:1] == ("broker",)],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_imports_follow_the_direction_of_the_brokers_folders(path: Path) -> None:
    """Only the files beside the folders, which compose them, may import everything."""
    folder = path.relative_to(PACKAGE / "broker").parts[0]
    if folder.endswith(".py"):
        return
    may = BROKER_MAY_IMPORT[folder] | {folder, "base"}
    broken = [
        f"line {line}: {folder!r} may not import {name!r}"
        for line, name in imports(path)
        if name.startswith("counterpoise.broker.") and name.split(".")[2] not in may
    ]
    assert not broken, "\n".join(broken)


def test_no_folder_of_the_broker_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(BROKER_MAY_IMPORT).prepare()


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= MODULE_LINES_MAX, f"{lines} lines: split it by what it holds"
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long, f"functions over {FUNCTION_LINES_MAX} lines: {long}"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_forbidden_text(path: Path) -> None:
    found = [
        f"line {number}: {line.strip()!r}: {advice}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pattern, advice in FORBIDDEN_TEXT.items()
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_dead_modules() -> None:
    """Every module is imported by another, or is named as an entry point."""
    entry_points = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    imported: set[str] = set()
    for path in sources():
        for _, name in imports(path):
            parts = name.split(".")
            imported.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    imported |= {
        f"counterpoise.app.{folder}.{verb.name.replace('-', '_')}"
        for verb in VERBS
        for folder in ("arguments", "verbs")
    }
    dynamic = "\n".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py"))
    dead = []
    for path in sources():
        module = ".".join(("counterpoise", *path.relative_to(PACKAGE).with_suffix("").parts))
        if path.name in {"__init__.py", "__main__.py"} or module in entry_points:
            continue
        by_name = f'"{module}' in dynamic or f'"{path.name}"' in dynamic
        if module not in imported and not by_name:
            dead.append(module)
    assert not dead, f"nothing imports {dead}"


def words_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, word and advice for every word of `WORDS`, in prose and in names."""
    for number, line in enumerate(text.splitlines(), 1):
        split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", line).replace("_", " ")
        for found in _WORD.finditer(split):
            advice = list(WORDS.values())[int(str(found.lastgroup)[1:])]
            yield number, found.group(), advice


def _stays(path: str, word: str) -> bool:
    return any(path.startswith(place) and each in ("", word) for place, each in WORDS_STAY)


def listed(*patterns: str) -> list[Path]:
    """The repository's files that match; Git ignores some, such as pages that a build made."""
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / line for line in found.stdout.splitlines()]
    return [path for path in paths if path.exists()]


_DEFINED = re.compile(r"^\s*(?:async )?(?:def|class) \w+", re.MULTILINE)


def names_defined(text: str) -> str:
    """The text with nothing left but the names of functions and classes, each on its line."""
    lines = (_DEFINED.match(line) for line in text.splitlines())
    return "\n".join(found.group() if found else "" for found in lines)


def test_the_words_are_those_of_the_field() -> None:
    """All text of the package, the benchmarks and the documentation; of tests, all names."""
    prose = [*sources(), *listed("docs/*.md", "bench/*.py", "bench/*.md")]
    texts = {path: path.read_text(encoding="utf-8") for path in prose}
    for path in listed("tests/*.py"):
        texts[path] = names_defined(path.read_text(encoding="utf-8"))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r}: write {advice}"
        for path, text in sorted(texts.items())
        for line, word, advice in [*words_in(text), *words_in(path.stem)]
        if not _stays(str(path.relative_to(ROOT)), word.lower())
    ]
    assert not found, "\n".join(found)
    unused = [
        place
        for place, word in WORDS_STAY
        if not any(
            word in ("", each.lower())
            for path, text in texts.items()
            if str(path.relative_to(ROOT)).startswith(place)
            for _, each, _ in words_in(text)
        )
    ]
    assert not unused, f"excepted, and not there any more: {unused}"


@pytest.mark.parametrize("text", ["class LetGo:", "let_go()", "An Heir", "x.told", "mended_at"])
def test_a_word_is_found_in_a_name(text: str) -> None:
    assert list(words_in(text))


@pytest.mark.parametrize("text", ["untold", "intelligent", "amendment", "renewal", "outdoors"])
def test_a_word_is_not_found_within_another(text: str) -> None:
    assert not list(words_in(text))


def test_of_tests_the_names_are_looked_at() -> None:
    text = "import x\nclass Deed:\n    async def test_an_heir(self, told: int) -> None: ...\n"
    assert names_defined(text) == "\nclass Deed\n    async def test_an_heir"
    assert [line for line, *_ in words_in(names_defined(text))] == [2, 3]


def test_class_names_are_unique_in_the_package() -> None:
    places: dict[str, list[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    found = [f"{name}: {', '.join(files)}" for name, files in sorted(twice.items())]
    assert not found, "rename all but one:\n" + "\n".join(found)


def test_few_file_names_recur() -> None:
    places: dict[str, list[str]] = {}
    for path in sources():
        where = str(path.relative_to(PACKAGE))
        if not where.startswith(NAMED_AFTER):
            places.setdefault(path.stem, []).append(where)
    often = {name: files for name, files in places.items() if len(files) > FILE_NAMES_MAX}
    found = [f"{name}: {', '.join(often[name])}" for name in sorted(often.keys() - FILES_RECUR)]
    assert not found, "name all but three after what they hold:\n" + "\n".join(found)
    assert not FILES_RECUR - often.keys(), f"recur no more: {FILES_RECUR - often.keys()}"


#: Where a broker's tasks are made; everything else asks `BackgroundTasks` for them.
MAKES_TASKS = {"broker/base/background.py"}


def test_a_broker_starts_its_tasks_where_their_end_is_seen() -> None:
    found = [
        f"{path.relative_to(PACKAGE)} line {node.lineno}"
        for path in sources()
        if room_of(path) in {"broker", "admin"}
        and str(path.relative_to(PACKAGE)) not in MAKES_TASKS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id)
        in {"create_task", "ensure_future", "TaskGroup"}
    ]
    assert not found, f"use broker/base/background.py: {found}"


def test_the_repository_names_no_registry_and_no_path_of_one_machine() -> None:
    pattern = (
        r"https?://[a-z0-9.-]*(pypi|pythonhosted|maven|npmjs|crates|debian)[a-z0-9.-]*"
        r"|index[-]url|(^|[^a-z0-9_.])/(wor[k]|far[m])/[a-z.]"
    )
    here = str(Path(__file__).relative_to(ROOT))
    found = subprocess.run(
        ["git", "grep", "-nIiE", pattern, "--", ".", f":!{here}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode not in {0, 1}:
        pytest.skip("not a git checkout")
    assert found.stdout == ""


#: Of all tests: names of others that begin with an underscore, and waits by the clock. These may
#: fall, and never grow: `tests/waiting.py` and `tests/quota/jumping.py` wait for all.
PRIVATE_ACCESSES_MOST = 145
SLEEPS_MOST = 45
#: Of the standard library, for everybody's use in spite of their underscores.
PUBLIC_ALL_THE_SAME = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})


def private_accesses(tree: ast.Module) -> list[str]:
    """The attributes of objects other than the own one whose names begin with one underscore."""
    return [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match("_[^_]", node.attr)
        and node.attr not in PUBLIC_ALL_THE_SAME
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and not (isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()")
    ]


def sleeps(tree: ast.Module) -> list[str]:
    """The waits by the clock; to wait for no time at all is a turn of the loop."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("asyncio.sleep", "time.sleep", "sleep")
        and [ast.unparse(each) for each in node.args] != ["0"]
    ]


def test_tests_look_into_few_objects_and_seldom_wait_by_the_clock() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in listed("tests/*.py")]
    looked = sum(len(private_accesses(tree)) for tree in trees)
    waited = sum(len(sleeps(tree)) for tree in trees)
    assert looked <= PRIVATE_ACCESSES_MOST, "test by what others see, or look in one place"
    assert waited <= SLEEPS_MOST, "wait for a condition (tests/waiting.py) or in virtual time"


def test_what_counts_as_a_look_into_an_object_and_as_a_wait() -> None:
    text = "a._b; self._c; super()._d(); e._replace(f); g.__h__; x._y._z\n"
    assert sorted(private_accesses(ast.parse(text))) == ["_b", "_y", "_z"]
    text = "asyncio.sleep(0); time.sleep(1); asyncio.sleep(x)"
    assert sleeps(ast.parse(text)) == ["time.sleep(1)", "asyncio.sleep(x)"]
