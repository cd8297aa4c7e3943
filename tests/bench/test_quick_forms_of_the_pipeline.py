"""The quick forms of the pipeline's benchmarks, and of decisions, end with their figures."""

from pathlib import Path

import pytest
from tests.bench.quick_forms import OTHERS, PIPELINE, ends_with


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(PIPELINE))
def test_a_quick_form_ends_with_its_figures(name: str, tmp_path: Path) -> None:
    ends_with(name, PIPELINE[name], tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_quick_form_of_decisions_ends_with_its_figures(name: str, tmp_path: Path) -> None:
    ends_with(name, OTHERS[name], tmp_path)
