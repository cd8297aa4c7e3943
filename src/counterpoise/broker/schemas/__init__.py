"""Schemas of topics: their versions and compatibility."""
