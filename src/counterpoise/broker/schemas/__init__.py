"""Schemas of topics: versions, and what goes with what."""
