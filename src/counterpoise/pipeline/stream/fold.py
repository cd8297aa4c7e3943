"""The streaming query: landed polls in, the state of each shard out.

What is columnar stays out of the JVM. State is kept by shard, not by bundle: a keyed Python state
costs half a millisecond a key, while a shard's thousands of bundles are columns that NumPy folds
at once. Only names go through Spark, those of landed files in and those of states out; the columns
are read and written next to the fold. Spark does what it is there for: polls in order, tasks side
by side, on one machine or many.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from counterpoise.load.fold import DEFAULT_OPTIONS, FoldOptions, FoldState, fold
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.stream.codec import batch_of_files
from counterpoise.pipeline.stream.source import FILES_MOST, ShardSource
from counterpoise.pipeline.stream.states import (
    begin,
    forget,
    read_state,
    state_name,
    write_state,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FOLDED = pa.schema([("shard", pa.int32()), ("up_to", pa.int64())])


def start_fold(
    spark: "SparkSession",
    uri: str,
    each: Callable[[int, list[str]], None],
    *,
    shards: int,
    checkpoint: str,
    files: int = FILES_MOST,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> "StreamingQuery":
    """Fold what lands in a history until stopped, at most `files` files a micro-batch.

    `each` gets the poll that a micro-batch went up to, and the files of its shards' states. What
    the stream remembers is in these states; Spark's own `checkpoint` is an empty directory of this
    machine, for this start alone, so a history can be copied, moved and taken up elsewhere.
    """
    store = open_store(uri)
    after = begin(store, shards)

    def on_batch(folded: "DataFrame", number: int) -> None:
        rows = folded.collect()
        if rows:
            up_to = rows[0]["up_to"]
            each(up_to, [state_name(up_to, shard, shards) for shard in range(shards)])
            forget(store)

    spark.dataSource.register(ShardSource)
    polls = (
        spark.readStream.format(ShardSource.name())
        .option("history", uri)
        .option("after", after)
        .option("files", files)
        .option("shards", shards)
        .load()
    )
    fold_parts = partial(fold_shard, uri=uri, shards=shards, options=options)
    return (
        polls.mapInArrow(fold_parts, "shard int, up_to long")
        .writeStream.option("checkpointLocation", checkpoint)
        .foreachBatch(on_batch)
        .start()
    )


def fold_shard(
    parts: Iterator[Any], *, uri: str, shards: int, options: FoldOptions = DEFAULT_OPTIONS
) -> Iterator[Any]:
    """Fold one shard's part of a micro-batch into the state after it."""
    store = open_store(uri)
    for rows in parts:
        for row in rows.to_pylist():
            shard, after, up_to = row["shard"], row["after"], row["up_to"]
            name = state_name(after, shard, shards)
            before = read_state(store, name) if after else FoldState.empty()
            names = json.loads(row["files"])
            batch = batch_of_files(store, names, after=after, shard=shard, shards=shards)
            write_state(store, state_name(up_to, shard, shards), fold(before, batch, options))
            yield pa.record_batch([[shard], [up_to]], schema=_FOLDED)
