"""What of one's own strategies is brought to executors (on a cluster: `../test_standalone.py`)."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest

from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.shedding.threshold import ThresholdShedder
from counterpoise.pipeline.spark.code import archive_of


@pytest.fixture
def lies_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path, whose modules are forgotten at the end."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def names_in(archive: str | None) -> set[str]:
    assert archive is not None
    with ZipFile(archive) as read:
        return set(read.namelist())


def test_our_own_strategies_need_nothing_brought() -> None:
    assert archive_of([ThresholdShedder(), LeastUsage()]) is None
    assert archive_of([]) is None


def test_a_strategy_comes_with_what_it_imported_from_beside_it(lies_in: Path) -> None:
    (lies_in / "acme_tools").mkdir()
    for name in ("__init__", "deep"):
        (lies_in / "acme_tools" / f"{name}.py").write_text("")
    (lies_in / "acme_tools" / "table.json").write_text("{}")
    (lies_in / "acme_unused.py").write_text("")
    (lies_in / "acme_mine.py").write_text("import acme_tools\nclass Mine: ...\n")
    made = import_module("acme_mine").Mine()
    tools = {f"acme_tools/{name}" for name in ("__init__.py", "deep.py", "table.json")}
    assert names_in(archive_of([made, LeastUsage()])) == {"acme_mine.py", *tools}


def test_of_an_installed_strategy_only_its_package_is_brought(lies_in: Path) -> None:
    home = lies_in / "site-packages"
    (home / "acme").mkdir(parents=True)
    (home / "acme" / "__init__.py").write_text("import acme_needs\n")
    (home / "acme" / "shed.py").write_text("class Shed: ...\n")
    (home / "acme_needs.py").write_text("")
    sys.path.insert(0, str(home))
    made = import_module("acme.shed").Shed()
    assert names_in(archive_of([made])) == {"acme/__init__.py", "acme/shed.py"}
