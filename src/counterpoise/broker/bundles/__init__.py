"""Bundles: who owns one, who shall, and how it changes hands."""
