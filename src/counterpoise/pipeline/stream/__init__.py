"""Folds committed polls into the state of each shard on Spark, and starts the session for it."""
