"""Filters: which brokers may have a bundle at all, each with a reason for those that may not."""
