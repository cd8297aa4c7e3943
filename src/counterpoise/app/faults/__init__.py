"""Faults that a test injects into an embedded cluster, and the log of their effects."""
