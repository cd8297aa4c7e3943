"""Faults that a test has an embedded cluster meet, and the log of what came of them."""
