"""Load reports, their averages, and the cluster as columns."""
