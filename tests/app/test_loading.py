"""What loading modules leaves behind for the garbage collector."""

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.app.loading import loading


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The collector as it was, whatever a test does to it."""
    collects, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.unfreeze()
    yield
    (gc.freeze if frozen else gc.unfreeze)()
    if collects:
        gc.enable()
    else:
        gc.disable()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that is not imported yet."""
    name = "imported_by_a_test"
    (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_looked_for_afterwards_as_it_was_before(*, collects: bool) -> None:
    (gc.enable if collects else gc.disable)()
    with pytest.raises(ModuleNotFoundError), loading():
        importlib.import_module("counterpoise.is_not_there")
    assert gc.isenabled() is collects


def test_what_was_loaded_is_old_and_not_gone_through_as_new(module: str) -> None:
    with loading():
        importlib.import_module(module)
        loaded = [[number] for number in range(5_000)]
    youngest = {id(each) for each in gc.get_objects(generation=0)}
    assert not youngest.intersection(map(id, loaded))


def test_garbage_that_arose_meanwhile_can_still_be_found(module: str) -> None:
    class Kept:
        pass

    with loading():
        importlib.import_module(module)
        cycle = Kept()
        cycle.__dict__["itself"] = cycle
    kept = id(cycle)
    del cycle
    gc.collect()
    assert kept not in {id(each) for each in gc.get_objects() if type(each) is Kept}


def test_what_the_program_has_frozen_stays_so(module: str) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with loading():
        importlib.import_module(module)
    assert gc.get_freeze_count() > frozen // 2 > 0
