"""Primitives that every other folder of the broker uses, and which use none of them."""
