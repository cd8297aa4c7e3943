"""A shard's state as bytes, and its part of landed files."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.load.fold import Batch
from counterpoise.load.rows import BUNDLE, REPORT, SAMPLE, Table
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.parquet import opened
from counterpoise.pipeline.tables.rows_codec import columns_of

_OF_BUNDLES = [*SAMPLE, "digest"]
_OF_ALL = list(dict.fromkeys((*SAMPLE, *REPORT, "digest")))


def batch_of_files(
    store: Store, names: Iterable[str], *, after: int, shard: int, shards: int
) -> Batch:
    """What landed files have for one shard behind a poll: its bundles, and what is no bundle."""
    samples: list[Table] = []
    reports: list[Table] = []
    for name in names:
        for group in store.read(name, _groups):
            polls = group.column("poll_id")
            older = pc.min(polls).as_py() <= after
            table = group.filter(pc.greater(polls, after)) if older else group
            mine = table.column("digest").to_numpy() % shards == shard
            if "kind" in table.column_names:
                of_bundle = np.asarray(pc.equal(table.column("kind"), BUNDLE))
                reports.append(columns_of(table.take(np.flatnonzero(~of_bundle)), REPORT))
                mine &= of_bundle
            samples.append(columns_of(table.select(SAMPLE).filter(pa.array(mine)), SAMPLE))
    return Batch.joined(samples, reports)


def _groups(file: Any) -> list[pa.Table]:
    """The row groups of a file; those of bundles alone with no more than these need."""
    parquet = opened(file)
    kind = parquet.schema_arrow.names.index("kind")
    groups = []
    for number in range(parquet.num_row_groups):
        said = parquet.metadata.row_group(number).column(kind).statistics
        alone = said is not None and said.has_min_max and said.min == said.max == BUNDLE
        groups.append(parquet.read_row_group(number, columns=_OF_BUNDLES if alone else _OF_ALL))
    return groups
