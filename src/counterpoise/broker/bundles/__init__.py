"""Bundles: their owners, placement, transfers and splits."""
