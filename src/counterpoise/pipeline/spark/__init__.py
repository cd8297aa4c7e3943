"""Spark for every job of the pipeline: the code that executors need, and whether any came."""
