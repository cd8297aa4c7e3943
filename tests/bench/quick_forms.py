"""What the quick form of each benchmark has to say, and how it is run."""

import json
import shutil
from pathlib import Path

import pytest
from bench.__main__ import run
from tests.conformance.jars import pulsar_lib

from counterpoise.app.clusters.bookies import find_jars
from counterpoise.app.errors import UserError

BROKERS = {
    "beside_pulsar": {"frames, unbatched", "unload: out of order"},
    "crowds": {"a backlog read: 1,000 subscriptions"},
    "delivery": {"a backlog read: exclusive, batches of 1,000"},
    "embedded_start": {"embedded: first acknowledged message after the call"},
    "embedded_topics": {"embedded: memory of a topic"},
    "handshake": {"a connection by token, HS512"},
    "lookups": {"lookups, one connection"},
    "many": {"memory of an idle connection", "a bundle's unload", "memory of a topic among many"},
    "moves": {"gap of a move, median: extensible manager"},
    "on_bookies": {"frames, unbatched", "gap of a move, median"},
    "reading": {"after a restart, cold: unbatched", "a compacted topic read"},
    "storage": {"append, CPU"},
    "throttle": {
        "the broker's processor time of a message, batched, under limits that are not reached"
    },
    "topics": {"publish to receipt, memory"},
    "transactions": {"transactions of 1 message, 10 at once"},
    "wire": {"a SEND_RECEIPT, written"},
}
PIPELINE = {
    "backtest": {"backtest on Spark, two cores"},
    "cycle": {"the whole cycle"},
    "history": {"landing a poll of 100,000 reports", "a commit", "a month of history"},
    "history_import": {"a month of the history"},
    "idle": {"an idle balancer", "an idle balancer's memory"},
    "months": {"a batch, median"},
    "pipeline_fold": {"fold on Spark, a batch"},
    "rollup": {"1 days are rolled up"},
}
OTHERS = {
    "console": {"console: server's CPU for a look without a page"},
    "forecasts": {"pinball loss of an hour ahead ÷ that of the hour before"},
    "placement": {"RoundRobinBrokerSelector, 10 brokers"},
    "quota": {"consume and check", "an acquire for asyncio"},
    "shedding": {"TransferShedder, 100 x 10"},
    "strategies": {"diurnal: imbalance above 1, ours ÷ the best of Pulsar's"},
}


def ends_with(name: str, figures: set[str], folder: Path) -> None:
    """Run a quick form, which gives at least these figures."""
    if missing := _missing(name):
        pytest.skip(missing)
    failure = run(name, folder, quick=True, limit_s=300)
    if failure is not None and name == "forecasts" and "pip" in failure.reason:
        pytest.skip("its series cannot be fetched here")
    assert failure is None
    measured = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert measured["quick"]
    assert figures <= {each["name"] for each in measured["figures"]}
    # Of a moment's work some processor times are too short to be seen, and what one run took above
    # another may be less than nothing on a busy machine.
    differences = ("memory", "above a run")
    assert all(
        each["value"] >= 0 or any(word in each["name"] for word in differences)
        for each in measured["figures"]
    )
    assert any(each["value"] > 0 for each in measured["figures"])


def _missing(name: str) -> str:
    """Why a benchmark cannot run here."""
    if name == "on_bookies":
        try:
            find_jars()
        except UserError as error:
            return str(error)
    if name == "transactions" and pulsar_lib(fetch=False) is None:
        return "pulsar-perf is among Pulsar's jars, which are not here"
    if name == "console" and not (shutil.which("chromium") or shutil.which("chromium-browser")):
        return "there is no Chromium here"
    return ""
