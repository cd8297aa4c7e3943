"""Splitting bundles: where to cut one (the algorithms), and when (the tasks)."""
