"""Filters: which brokers may own a bundle, each with a reason for those that may not."""
