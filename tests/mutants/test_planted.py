"""Every planted fault has its place and its test; a few are planted whenever the suite runs."""

import re

import pytest

from tests.mutants.__main__ import ROOT, changed_copy, noticed
from tests.mutants.fault import Fault
from tests.mutants.planted import PLANTED
from tests.mutants.random_changes import explained

QUICK = [fault for fault in PLANTED if fault.quick]


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.what)
def test_a_fault_has_its_place_and_its_test(fault: Fault) -> None:
    source = (ROOT / "src" / "counterpoise" / fault.file).read_text()
    assert source.count(fault.old) == 1, "code has changed around it: plant it there again"
    compile(source.replace(fault.old, fault.new), fault.file, "exec")
    file, _, name = fault.test.partition("::")
    assert (ROOT / file).exists()
    assert not name or re.search(rf"^ *(async )?def {name}\(", (ROOT / file).read_text(), re.M)


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.what)
def test_a_fault_is_noticed(fault: Fault) -> None:
    with changed_copy() as copy:
        assert noticed(copy, fault)


def test_a_change_that_changes_nothing_is_not_noticed() -> None:
    """Or `noticed` would say so of anything."""
    file = "wire/varint.py"
    first = (ROOT / "src" / "counterpoise" / file).read_text().splitlines()[0]
    with changed_copy() as copy:
        same = Fault("nothing", file, first, f"{first} ", "tests/wire/test_messages_in.py")
        assert not noticed(copy, same)


def test_an_explanation_is_of_lines_that_are_there() -> None:
    """Code that changed since may be worth a test by now."""
    package = ROOT / "src" / "counterpoise"
    for file, lines in explained():
        if file != "several files":
            there = set((package / file).read_text().splitlines())
            stale = {line for line in lines if line.startswith("- ") and line[2:] not in there}
            assert not stale, f"{file} has changed: look at survivors.txt again"
