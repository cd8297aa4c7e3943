"""Transactions (PIP-31): their coordinators, and what topics and subscriptions know of them."""
