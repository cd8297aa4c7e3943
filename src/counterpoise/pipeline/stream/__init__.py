"""Spark: landed polls in, the state of each shard out, and a session to run it in."""
