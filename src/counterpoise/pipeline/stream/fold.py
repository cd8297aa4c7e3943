"""The streaming query: landed polls in, the state of each shard out.

What is columnar stays out of the JVM. State is kept by shard, not by bundle: a keyed Python state
costs half a millisecond a key, while a shard's thousands of bundles are columns that NumPy folds
at once. A shard is a partition of the source, and to read it is to fold it: one Python process for
each core, and only the names of states go through Spark. Spark does what it is there for: polls in
order, tasks side by side, on one machine or many.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from counterpoise.load.fold import DEFAULT_OPTIONS, FoldOptions, FoldState, fold
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.stream.codec import batch_of_files
from counterpoise.pipeline.stream.source import FILES_MOST, PollOffsets
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


def start_fold(
    spark: "SparkSession",
    uri: str,
    each: Callable[[int, list[str]], None],
    *,
    shards: int,
    checkpoint: str,
    files: int = FILES_MOST,
    every_ms: int = 0,
    options: FoldOptions = DEFAULT_OPTIONS,
) -> "StreamingQuery":
    """Fold what lands in a history until stopped, at most `files` files a micro-batch.

    Polls less than `every_ms` apart wait for each other: a micro-batch costs far more than a poll.
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

    spark.dataSource.register(FoldSource)
    return (
        spark.readStream.format(FoldSource.name())
        .option("history", uri)
        .option("after", after)
        .option("files", files)
        .option("shards", shards)
        .option("every", every_ms)
        .option("fold", json.dumps(asdict(options)))
        .load()
        .writeStream.option("checkpointLocation", checkpoint)
        .foreachBatch(on_batch)
        .start()
    )


@dataclass
class Shard(InputPartition):
    """One shard's part of a micro-batch: the polls behind `after`, up to `up_to`, and their files.

    Every shard sees every file, and so names its state after each micro-batch.
    """

    shard: int
    after: int
    up_to: int
    names: tuple[str, ...]


class FoldSource(DataSource):
    """The source of the query; its options are those that `start_fold` gives it."""

    @classmethod
    def name(cls) -> str:
        """As Spark calls it."""
        return "counterpoise-fold"

    def schema(self) -> str:
        """A row for each shard and micro-batch: the state that was written."""
        return "shard int, up_to long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader: planning beside the driver, folding in the executors."""
        return _FoldReader(self.options)


class _FoldReader(PollOffsets):
    def __init__(self, options: Any) -> None:
        after, files, every_ms = (int(options[name]) for name in ("after", "files", "every"))
        super().__init__(options["history"], after, files, every_ms)
        self._shards = int(options["shards"])
        self._options = FoldOptions(**json.loads(options["fold"]))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        names = tuple(self.files(start, end))
        if not names:
            return []
        return [Shard(s, start["poll"], end["poll"], names) for s in range(self._shards)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        part = cast("Shard", partition)
        fold_shard(self.store, part, self._shards, self._options)
        yield part.shard, part.up_to


def fold_shard(store: Store, part: Shard, shards: int, options: FoldOptions) -> None:
    """Write the state of a shard after its part of a micro-batch."""
    before = FoldState.empty()
    if part.after:
        before = read_state(store, state_name(part.after, part.shard, shards))
    batch = batch_of_files(store, part.names, after=part.after, shard=part.shard, shards=shards)
    after = fold(before, batch, options)
    write_state(store, state_name(part.up_to, part.shard, shards), after)
