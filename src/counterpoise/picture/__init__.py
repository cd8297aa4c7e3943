"""Values that the console and reports show of a cluster, made from frozen views."""
