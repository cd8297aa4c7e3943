"""Decides which bundles move and where to, and which are split: pure functions of frozen views."""
