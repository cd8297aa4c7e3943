"""Faults planted on purpose, to see that the tests notice: ``make mutants``."""
