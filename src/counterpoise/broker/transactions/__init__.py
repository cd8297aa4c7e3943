"""Transactions (PIP-31): their coordinators, and their state on topics and subscriptions."""
