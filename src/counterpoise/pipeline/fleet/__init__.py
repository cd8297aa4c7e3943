"""Several clusters side by side: their state, read from all of them concurrently."""
