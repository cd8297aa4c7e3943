"""The streaming query: landed files in, the state of each shard out.

What is columnar stays columnar. State is kept by shard, not by bundle: a keyed Python state costs
half a millisecond a key, while a shard's thousands of bundles are one blob of columns that NumPy
folds at once. And landed files travel through the JVM whole, as bytes, to be read by Arrow next
to the fold: as JVM rows, 100,000 bundles cost seconds of CPU. Spark does what it is there for:
files in order, exactly once, state and checkpoint, on one machine or many.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise.pipeline.codec import batch_from_files, state_from_bytes, state_to_bytes
from counterpoise.pipeline.fold import DEFAULT_OPTIONS, FoldOptions, FoldState, fold

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

_FILES = "path string, modificationTime timestamp, length long, content binary"


def fold_stream(
    spark: "SparkSession",
    reports: Path,
    *,
    shards: int,
    files: int,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> "DataFrame":
    """A streaming table of `(shard, state)`: the blob of `codec` after each micro-batch.

    `reports` is the directory of landed files; at most `files` of them make a micro-batch. Every
    shard sees every file, picks its own bundles, and so tells its state after each poll.
    """
    from pyspark.sql import functions as f

    landed = (
        spark.readStream.format("binaryFile")
        .schema(_FILES)
        .option("maxFilesPerTrigger", files)
        .option("pathGlobFilter", "*.parquet")
        .load(str(reports))
    )
    everywhere = f.explode(f.sequence(f.lit(0), f.lit(shards - 1))).alias("shard")
    return (
        landed.select(everywhere, "content")
        .groupBy("shard")
        .applyInPandasWithState(
            partial(fold_shard, shards=shards, options=options),
            "shard int, state binary",
            "state binary",
            "update",
            "NoTimeout",
        )
    )


def fold_shard(
    key: tuple[Any, ...],
    frames: Iterable["pd.DataFrame"],
    state: "GroupState",
    *,
    shards: int,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> Iterator["pd.DataFrame"]:
    """Fold one shard's part of a micro-batch's files into its state."""
    import pandas as pd

    shard = int(key[0])
    before = state_from_bytes(state.get[0]) if state.exists else FoldState.empty()
    files = [content for frame in frames for content in frame["content"]]
    batch = batch_from_files(files, shard=shard, shards=shards)
    blob = state_to_bytes(fold(before, batch, options))
    state.update((blob,))
    yield pd.DataFrame({"shard": [shard], "state": [blob]})


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
