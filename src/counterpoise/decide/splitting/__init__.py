"""Splitting bundles: where to split one (the algorithms), and when (the checks of both
managers).
"""
