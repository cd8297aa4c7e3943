"""What the console and reports show of a cluster, computed from frozen views, without a page."""
