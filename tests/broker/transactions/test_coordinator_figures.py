"""How long transactions were open, in the classes of Pulsar's metrics."""

from counterpoise.broker.transactions.coordinator_figures import CoordinatorFigures

SECOND_MS = 1_000
BOUNDS_MS = (10, 20, 50, 100, 500, *(n * SECOND_MS for n in (1, 5, 15, 30, 60, 300, 1_500, 3_000)))
"""``pulsar_txn_execution_latency_le_*``."""


def test_each_class_has_its_upper_bound_and_what_is_longer_has_one_of_its_own() -> None:
    figures = CoordinatorFigures()
    for bound in BOUNDS_MS:
        figures.ended(bound, commit=True)
        figures.ended(bound + 1, commit=True)
    figures.ended(1, commit=False)
    assert figures.durations == [1, *[2] * (len(BOUNDS_MS) - 1), 1]
    assert (figures.committed, figures.aborted) == (2 * len(BOUNDS_MS), 1)
