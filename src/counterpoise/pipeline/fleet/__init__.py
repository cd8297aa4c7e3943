"""Several clusters side by side: the state of each, read from all of them concurrently."""
