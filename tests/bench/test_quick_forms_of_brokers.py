"""The quick forms of the benchmarks of brokers end, and say what their full forms say."""

from pathlib import Path

import pytest
from bench.__main__ import names
from tests.bench.quick_forms import BROKERS, OTHERS, PIPELINE, ends_with


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(BROKERS))
def test_a_quick_form_ends_with_its_figures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of brief lives: to compile code well costs bookies more than it saves.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    ends_with(name, BROKERS[name], tmp_path)


def test_every_benchmark_has_a_quick_form_that_is_run() -> None:
    assert sorted({**BROKERS, **PIPELINE, **OTHERS}) == names()
