"""What the suite does not run: the modules of verbs that take long have all that they import."""

import importlib
import pkgutil
from types import ModuleType

import pytest

import bench
import tests.chaos
import tests.real

STARTS = "__main__"


@pytest.mark.parametrize(
    "package", [bench, tests.chaos, tests.real], ids=lambda each: each.__name__
)
def test_each_module_of_a_long_run_can_be_imported(package: ModuleType) -> None:
    """They are not checked for types, so a name that moved is found here."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [each.name for each in found if not each.name.endswith(STARTS)]
    assert names
    for name in names:
        importlib.import_module(name)
