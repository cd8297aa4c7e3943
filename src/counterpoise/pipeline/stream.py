"""The streaming query: landed files in, the state of each shard out.

State is kept by shard, not by bundle: a keyed Python state costs half a millisecond a key, while a
shard's thousands of bundles are one columnar blob that NumPy folds at once. A batch's result is the
new blobs themselves, a row for each shard; the rows of brokers go to every shard, so that each
shard tells its state after each poll.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise.pipeline.codec import REPORTS_SCHEMA, state_from_bytes, state_to_bytes
from counterpoise.pipeline.fold import DEFAULT_OPTIONS, Batch, FoldOptions, FoldState, fold
from counterpoise.pipeline.rows import (
    BROKER_NUMBERS,
    BROKER_TEXTS,
    BUNDLE,
    COLUMNS,
    REPORT,
    SAMPLE,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

_PLAIN = tuple(dict.fromkeys((*SAMPLE, *REPORT[: -len(BROKER_TEXTS) - len(BROKER_NUMBERS)])))


def fold_stream(
    spark: "SparkSession",
    reports: Path,
    *,
    shards: int,
    files: int,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> "DataFrame":
    """A streaming table of `(shard, state)`: the blob of `codec` after each micro-batch.

    `reports` is the directory of landed files; at most `files` of them make a micro-batch.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    landed = (
        spark.readStream.schema(from_arrow_schema(REPORTS_SCHEMA))
        .option("maxFilesPerTrigger", files)
        .option("pathGlobFilter", "*.parquet")
        .parquet(str(reports))
    )
    of_bundle = f.col("kind") == BUNDLE
    shard = f.pmod(f.crc32("bundle"), f.lit(shards)).cast("int")
    everywhere = f.sequence(f.lit(0), f.lit(shards - 1))
    rows = landed.select(
        f.explode(f.when(of_bundle, f.array(shard)).otherwise(everywhere)).alias("shard"),
        *_PLAIN,
        # What only brokers have travels packed: one empty value in a bundle's row, not twenty.
        f.when(~of_bundle, f.array(*[f.col(n).cast("double") for n in BROKER_NUMBERS])).alias(
            "numbers"
        ),
        f.when(~of_bundle, f.array(*[f.col(n) for n in BROKER_TEXTS])).alias("texts"),
    )
    return rows.groupBy("shard").applyInPandasWithState(
        partial(fold_shard, options=options),
        "shard int, state binary",
        "state binary",
        "update",
        "NoTimeout",
    )


def fold_shard(
    key: tuple[Any, ...],
    frames: Iterable["pd.DataFrame"],
    state: "GroupState",
    options: FoldOptions = DEFAULT_OPTIONS,
) -> Iterator["pd.DataFrame"]:
    """Fold one shard's rows of a micro-batch into its state."""
    import pandas as pd

    before = state_from_bytes(state.get[0]) if state.exists else FoldState.empty()
    blob = state_to_bytes(fold(before, _batch(pd.concat(frames)), options))
    state.update((blob,))
    yield pd.DataFrame({"shard": [int(key[0])], "state": [blob]})


def start_query(
    folded: "DataFrame", checkpoint: Path, each: Callable[[int, list[bytes]], None]
) -> "StreamingQuery":
    """Run the fold until stopped; `each` gets every micro-batch's number and its shards' blobs."""

    def on_batch(states: "DataFrame", number: int) -> None:
        rows = sorted(states.collect())
        each(number, [bytes(row["state"]) for row in rows])

    return (
        folded.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(on_batch)
        .start()
    )


def _batch(frame: "pd.DataFrame") -> Batch:
    import numpy as np

    frame = frame.sort_values(["poll_id", "seq"], kind="stable")
    of_bundle = (frame["kind"] == BUNDLE).to_numpy()
    samples = {name: frame[name].to_numpy()[of_bundle] for name in SAMPLE}
    others = frame[~of_bundle]
    reports = {name: others[name].to_numpy() for name in _PLAIN if name in REPORT}
    for packed, names in (("numbers", BROKER_NUMBERS), ("texts", BROKER_TEXTS)):
        columns = list(zip(*others[packed], strict=True)) or [()] * len(names)
        for name, column in zip(names, columns, strict=True):
            reports[name] = np.array(column, dtype=COLUMNS[name])
    return Batch(samples, reports)
