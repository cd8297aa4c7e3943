"""A short run of every suite against Pulsar's own classes, where their jars are on this machine."""

import pytest

from tests.conformance.jars import AVG_SHEDDER_VERSION, LIB_VARIABLE, MAIN_VERSION, pulsar_lib
from tests.conformance.runner import run
from tests.conformance.suites import SUITES
from tests.conformance.worker import Judge

LINES = 20


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", [MAIN_VERSION, AVG_SHEDDER_VERSION])
def test_no_difference(version: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    lib = pulsar_lib(version, fetch=False)
    if lib is None:
        pytest.skip(f"no jars of Pulsar {version} here: set {LIB_VARIABLE}, or run the conformance")
    pytest.importorskip("jpype")
    out = tmp_path_factory.mktemp("differences")
    with Judge(lib) as judge:
        for suite in SUITES.values():
            if suite.version == version:
                # Some act rarely: those are asked until they did.
                for lines in (LINES, 5 * LINES, 25 * LINES):
                    outcome = run(suite, judge, lines=lines, seed=7, out=out)
                    assert not outcome.failures, outcome.failures[0]["difference"]
                    if outcome.acted:
                        break
                assert outcome.shortcoming is None
