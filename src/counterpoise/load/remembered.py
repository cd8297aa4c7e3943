"""The fold's averages as ``BundleData``, the form in which Pulsar's leaders store them."""

from collections.abc import Collection, Mapping

import numpy as np

from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.fold import AVERAGES, DEFAULT_OPTIONS, TERMS, FoldOptions, FoldState
from counterpoise.load.rows import COLUMNS, RATES


def with_averages(state: FoldState, known: Mapping[str, BundleData], at_ms: int) -> FoldState:
    """Add the averages in ``known`` of bundles that have none in the state, dated ``at_ms``."""
    have = set(state.averages["bundle"]) if known else ()
    new = {bundle: data for bundle, data in known.items() if bundle not in have}
    if not new:
        return state
    rows = [(bundle, at_ms, *_figures(data)) for bundle, data in new.items()]
    added = {
        name: np.array(column, COLUMNS["bundle"] if name == "bundle" else None)
        for name, column in zip(AVERAGES, zip(*rows, strict=True), strict=True)
    }
    averages = {
        name: np.concatenate([column, added[name].astype(column.dtype)])
        for name, column in state.averages.items()
    }
    return FoldState(averages, state.served, state.brokers)


def without_averages(state: FoldState, bundles: Collection[str]) -> FoldState:
    """The state without the averages of these bundles."""
    kept = np.array([name not in bundles for name in state.averages["bundle"]], np.bool_)
    averages = {name: column[kept] for name, column in state.averages.items()}
    return FoldState(averages, state.served, state.brokers)


def bundle_data(
    state: FoldState, row: int, topics: int, options: FoldOptions = DEFAULT_OPTIONS
) -> BundleData:
    """One row of ``state.averages`` as Pulsar's ``BundleData`` with this number of topics."""
    averages = state.averages
    short, long = (
        TimeAverageMessageData(
            limit,
            int(averages[f"{term}_samples"][row]),
            **{name: float(averages[f"{term}_{name}"][row]) for name in RATES},
        )
        for term, limit in options.limits.items()
    )
    return BundleData(short, long, topics)


def reported_bundles(
    state: FoldState, options: FoldOptions = DEFAULT_OPTIONS
) -> dict[str, BundleData]:
    """The ``BundleData`` of every bundle that some broker reports now, by bundle name."""
    served = state.served
    latest = np.argsort(served["poll_id"], kind="stable")
    topics = dict(
        zip(served["bundle"][latest].tolist(), served["topics"][latest].tolist(), strict=True)
    )
    return {
        bundle: bundle_data(state, row, topics[bundle], options)
        for row, bundle in enumerate(state.averages["bundle"].tolist())
        if bundle in topics
    }


def _figures(data: BundleData) -> list[float]:
    """A bundle's averages, in the order of the columns of `AVERAGES` after the first two."""
    terms = {"short": data.short_term_data, "long": data.long_term_data}
    return [
        figure
        for term in TERMS
        for figure in (terms[term].num_samples, *(getattr(terms[term], name) for name in RATES))
    ]
