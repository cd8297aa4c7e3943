"""The examples of docs/howto/query-a-history.md, each run as a reader would, beside a history."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterpoise.pipeline.gold.tables import GOLD_TABLES
from counterpoise.pipeline.tables.schema import FOLD_STATE, TABLES
from tests.pipeline.gold.recorded import BROKERS, BUNDLES, history
from tests.pipeline.gold.test_rollup import rolled_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/howto/query-a-history.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SHOWN = (BUNDLES[5], BROKERS[2], "max_over_mean_after", "residual_p95", "bytes_per_s")
"""What each example prints, among the rest."""


@pytest.fixture(scope="module")
def beside(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a history that is rolled up."""
    home = tmp_path_factory.mktemp("examples")
    used = {table for table in GOLD_TABLES if f'history/{table}"' in PAGE} | {"gold_broker_days"}
    rolled_up(spark, history(home / "history"), used)
    return home


@pytest.mark.parametrize(("example", "shows"), list(zip(EXAMPLES, SHOWN, strict=True)))
def test_each_example_runs(example: str, shows: str, beside: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=beside, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert shows in ran.stdout


def test_every_table_is_named() -> None:
    assert [name for name in (*TABLES, *GOLD_TABLES) if f"`{name}`" not in PAGE] == [FOLD_STATE]
