"""Splitting bundles: where to split (the algorithms), and when (the checks of both managers)."""
