"""Faults that were once planted by hand and no test noticed, and their relatives.

Each is a change of a source file and the test that has to fail because of it.
"""

from tests.mutants.fault import Fault
from tests.mutants.planted_in_bookkeeper import IN_BOOKKEEPER
from tests.mutants.planted_in_brokers import IN_BROKERS
from tests.mutants.planted_in_moves import IN_MOVES
from tests.mutants.planted_in_pipeline import IN_PIPELINE
from tests.mutants.planted_in_security import IN_SECURITY
from tests.mutants.planted_in_storage import IN_STORAGE

PLANTED: tuple[Fault, ...] = (
    *IN_STORAGE,
    *IN_BOOKKEEPER,
    *IN_BROKERS,
    *IN_PIPELINE,
    *IN_MOVES,
    *IN_SECURITY,
)
