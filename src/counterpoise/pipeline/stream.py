"""The streaming query: landed files in, the state of each shard out.

What is columnar stays out of the JVM. State is kept by shard, not by bundle: a keyed Python state
costs half a millisecond a key, while a shard's thousands of bundles are columns that NumPy folds
at once. Only names go through Spark, those of landed files in and those of states (`states`) out;
the columns are read and written next to the fold. Spark does what it is there for: files in order,
exactly once, state and checkpoint, on one machine or many.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise.load.fold import DEFAULT_OPTIONS, FoldOptions, FoldState, fold
from counterpoise.pipeline.codec import batch_from_files
from counterpoise.pipeline.states import read_state, state_path, write_state

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

_FILES = "path string, modificationTime timestamp, length long, content binary"


def start_fold(
    spark: "SparkSession",
    reports: Path,
    home: Path,
    each: Callable[[int, list[Path]], None],
    *,
    shards: int,
    files: int,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> "StreamingQuery":
    """Fold what lands in `reports` until stopped, at most `files` files a micro-batch.

    `each` gets every micro-batch's number and the files of its shards' states. `home` has all that
    the stream remembers, its checkpoint and the states the checkpoint names: they go together.
    """
    from pyspark.sql import functions as f

    # Those who fold may run elsewhere, and in another directory.
    reports, states = reports.resolve(), (home / "states").resolve()

    def on_batch(folded: "DataFrame", number: int) -> None:
        rows = sorted(folded.collect())
        each(number, [state_path(states, row["shard"], row["version"]) for row in rows])

    landed = (
        spark.readStream.format("binaryFile")
        .schema(_FILES)
        .option("maxFilesPerTrigger", files)
        .option("pathGlobFilter", "*.parquet")
        .load(str(reports))
    )
    # Every shard sees every file, picks its own bundles, and so tells its state after each poll.
    everywhere = f.explode(f.sequence(f.lit(0), f.lit(shards - 1))).alias("shard")
    name = f.substring_index("path", "/", -1).alias("name")
    return (
        landed.select(everywhere, name)
        .groupBy("shard")
        .applyInPandasWithState(
            partial(fold_shard, reports=reports, states=states, shards=shards, options=options),
            "shard int, version long",
            "version long",
            "update",
            "NoTimeout",
        )
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(home / "checkpoint"))
        .foreachBatch(on_batch)
        .start()
    )


def fold_shard(
    key: tuple[Any, ...],
    frames: Iterable["pd.DataFrame"],
    state: "GroupState",
    *,
    reports: Path,
    states: Path,
    shards: int,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> Iterator["pd.DataFrame"]:
    """Fold one shard's part of a micro-batch's files into the next version of its state."""
    import pandas as pd

    shard, version = int(key[0]), int(state.get[0]) if state.exists else 0
    before = read_state(state_path(states, shard, version)) if version else FoldState.empty()
    landed = [reports / name for frame in frames for name in frame["name"]]
    batch = batch_from_files(landed, shard=shard, shards=shards)
    write_state(state_path(states, shard, version + 1), fold(before, batch, options))
    state.update((version + 1,))
    yield pd.DataFrame({"shard": [shard], "version": [version + 1]})
