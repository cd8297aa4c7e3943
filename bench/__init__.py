"""Benchmarks: `python -m bench [NAME …]`. Every figure stands beside its anchor of the same run."""
