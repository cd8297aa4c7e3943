"""Style as a test: sizes, names, words, and what tests may do."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.app.main import VERBS
from tests.sources import PACKAGE, ROOT, sources

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400
FORBIDDEN_TEXT = {
    re.compile(r"\bFIXME\b|\bXXX\b"): "finish it, or say in a sentence what is left and why",
    re.compile(r"#\s*type:\s*ignore(?!\[)"): "name the error: `# type: ignore[code]`",
    re.compile(r"time\.sleep\(0?\.\d"): "await the event instead of sleeping",
    re.compile(r"^\s*#: "): "document an attribute by a string below it",
}

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
"""Words that readers have to translate, and what to write instead: the terms of `docs/GLOSSARY.md`.
Names are split at capitals and underscores, so `LetGo` and `let_go` are found as well."""
_WORD = re.compile(
    rf"\b(?:{'|'.join(f'(?P<w{n}>{word})' for n, word in enumerate(WORDS))})\b", re.IGNORECASE
)
_BEGINS_WORD = re.compile("(?<=[a-z0-9])(?=[A-Z])")
WORDS_STAY = {
    ("src/counterpoise/pipeline/tables/data_files.py", "tell"): "the method of Python's files",
    ("src/counterpoise/pipeline/gold/write.py", "tell"): "the method of Python's files",
    ("src/counterpoise/pipeline/tables/old_layout.py", "reigns"): "a directory of older histories",
}
"""Where a word stays (all words where it is empty), and why."""
FILES_RECUR = frozenset("__init__ errors memory options policies registry".split())
"""File names that recur because every folder has such a file for the same purpose."""
NAMED_AFTER = ("app/", "admin/rest/", "admin/metrics/", "console/parts/")
"""Folders whose files are named after a verb, a resource or a subject that has a name already."""
FILE_NAMES_MAX = 3
MAKES_TASKS = frozenset({"broker/base/background.py"})
"""Where a broker's tasks are made; everything else asks `BackgroundTasks` for them."""


def test_files_and_functions_stay_small() -> None:
    lines = {it.where: it.text.count("\n") for it in sources()}
    long = [f"{where}: {count} lines" for where, count in lines.items() if count > MODULE_LINES_MAX]
    assert not long, f"split it by what it holds: {long}"
    long = [
        f"{it.where} {name}: {count} lines"
        for it in sources()
        for name, count in it.functions
        if count > FUNCTION_LINES_MAX
    ]
    assert not long, f"functions over {FUNCTION_LINES_MAX} lines: {long}"


def test_no_forbidden_text() -> None:
    found = [
        f"{it.where} line {number}: {line.strip()!r}: {advice}"
        for it in sources()
        for number, line in enumerate(it.text.splitlines(), 1)
        for pattern, advice in FORBIDDEN_TEXT.items()
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_dead_modules() -> None:
    """Every module is imported by another, or is named as an entry point."""
    entry_points = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    imported: set[str] = set()
    for it in sources():
        for _, name in it.imports:
            parts = name.split(".")
            imported.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    imported |= {
        f"counterpoise.app.{folder}.{verb.name.replace('-', '_')}"
        for verb in VERBS
        for folder in ("arguments", "verbs")
    }
    quoted = {name for it in sources() for name in re.findall(r'"([\w.]+)', it.text)}
    dead = []
    for it in sources():
        module = f"counterpoise.{it.where.removesuffix('.py').replace('/', '.')}"
        if it.name in {"__init__.py", "__main__.py"} or module in entry_points:
            continue
        if module not in imported and not quoted & {module, it.name}:
            dead.append(module)
    assert not dead, f"nothing imports {dead}"


def words_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, word and advice for every word of `WORDS`, in prose and in names."""
    split = _BEGINS_WORD.sub(" ", text).replace("_", " ")
    for found in _WORD.finditer(split):
        advice = list(WORDS.values())[int(str(found.lastgroup)[1:])]
        yield split.count("\n", 0, found.start()) + 1, found.group(), advice


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
    texts = {PACKAGE / it.where: it.text for it in sources()}
    for path in listed("docs/*.md", "bench/*.py", "bench/*.md"):
        texts[path] = path.read_text(encoding="utf-8")
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
    for it in sources():
        for name in it.classes:
            places.setdefault(name, []).append(it.where)
    twice = {name: files for name, files in places.items() if len(files) > 1}
    found = [f"{name}: {', '.join(files)}" for name, files in sorted(twice.items())]
    assert not found, "rename all but one:\n" + "\n".join(found)


def test_few_file_names_recur() -> None:
    places: dict[str, list[str]] = {}
    for it in sources():
        if not it.where.startswith(NAMED_AFTER):
            places.setdefault(it.name.removesuffix(".py"), []).append(it.where)
    often = {name: files for name, files in places.items() if len(files) > FILE_NAMES_MAX}
    found = [f"{name}: {', '.join(often[name])}" for name in sorted(often.keys() - FILES_RECUR)]
    assert not found, "name all but three after what they hold:\n" + "\n".join(found)
    assert not FILES_RECUR - often.keys(), f"recur no more: {FILES_RECUR - often.keys()}"


def test_a_broker_starts_its_tasks_where_their_end_is_seen() -> None:
    found = [
        f"{it.where} line {line}"
        for it in sources()
        if it.room in {"broker", "admin"} and it.where not in MAKES_TASKS
        for line in it.makes_tasks
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


PRIVATE_ACCESSES_MOST = 45
"""Of all tests: names of others that begin with an underscore, and waits by the clock. These may
fall, and never grow: `tests/waiting.py` and `tests/quota/jumping.py` wait for all."""
SLEEPS_MOST = 30
PUBLIC_ALL_THE_SAME = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})
"""Of the standard library, for everybody's use in spite of their underscores."""


WAITS = frozenset({"asyncio.sleep", "time.sleep", "sleep"})
"""The waits by the clock; to wait for no time at all is a turn of the loop."""

MAY_LOOK_OR_WAIT = re.compile(r"(?<!\bself)(?<!\bcls)(?<!super\(\))\._[^\W_]|sleep\(")
"""Text without a match need not be parsed, which takes a while."""


def looks_and_waits(text: str) -> tuple[list[str], list[str]]:
    """The attributes of objects other than the own one whose names begin with one underscore,
    and the waits by the clock.
    """
    looks, waits = list[str](), list[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            if (
                re.match("_[^_]", node.attr)
                and node.attr not in PUBLIC_ALL_THE_SAME
                and ast.unparse(node.value) not in ("self", "cls", "super()")
            ):
                looks.append(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if (
                name == "sleep"
                and ast.unparse(node.func) in WAITS
                and [ast.unparse(each) for each in node.args] != ["0"]
            ):
                waits.append(ast.unparse(node))
    return looks, waits


def test_tests_look_into_few_objects_and_seldom_wait_by_the_clock() -> None:
    texts = [path.read_text(encoding="utf-8") for path in listed("tests/*.py")]
    found = [looks_and_waits(text) for text in texts if MAY_LOOK_OR_WAIT.search(text)]
    looked, waited = sum(len(each) for each, _ in found), sum(len(each) for _, each in found)
    assert looked <= PRIVATE_ACCESSES_MOST, "test by what others see, or look in one place"
    assert waited <= SLEEPS_MOST, "wait for a condition (tests/waiting.py) or in virtual time"


def test_what_counts_as_a_look_into_an_object_and_as_a_wait() -> None:
    text = "a._b; self._c; super()._d(); e._replace(f); g.__h__; x._y._z\n"
    looks, _ = looks_and_waits(text)
    assert sorted(looks) == ["_b", "_y", "_z"]
    _, waits = looks_and_waits("asyncio.sleep(0); time.sleep(1); asyncio.sleep(x); a.sleep(2)")
    assert waits == ["time.sleep(1)", "asyncio.sleep(x)"]
