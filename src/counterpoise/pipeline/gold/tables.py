"""The gold tables by name; the query of each may read those before it."""

from pathlib import Path
from typing import Final

SQL: Final = Path(__file__).with_name("sql")

GOLD_TABLES: Final = {
    "gold_bundle_hours": "what each bundle carried in each hour",
    "gold_bundle_days": "what each bundle carried in the day, and its busiest hour",
    "gold_namespace_hours": "what each namespace carried in each hour",
    "gold_namespace_days": "what each namespace carried in the day",
    "gold_imbalance": "the most loaded broker by the mean of all, at each poll",
    "gold_broker_hours": "what each broker carried and used in each hour",
    "gold_broker_days": "the same by the day, and how long it was the hottest",
    "gold_hot_bundles": "the hundred bundles that carried the most in the day",
    "gold_moves": "what each move brought: load and imbalance before and after",
    "gold_rejections": "why bundles stayed, by the rule that refused",
    "gold_gaps": "what is missing in the record: brokers, polls, silence",
    "gold_bundle_features": "level, trend, shape of the day and residuals, for forecasts",
}


def query_of(table: str) -> str:
    """The SQL query of a gold table, from its file in `sql/`."""
    return (SQL / f"{table}.sql").read_text(encoding="utf-8")
