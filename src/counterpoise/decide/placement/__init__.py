"""Placement: which broker gets a bundle that has none."""
