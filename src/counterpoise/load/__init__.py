"""Brokers' load reports, bundles' averages made of them, and a cluster's load as arrays."""
