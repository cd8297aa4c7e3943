"""Logs on Apache BookKeeper, laid out as Pulsar's managed ledgers.

A topic has one node in the metadata store, which lists the BookKeeper ledgers of its messages; the
last one is written. Below it each cursor has a node. Another owner is known by one thing alone: the
node lists a ledger, as its last, that this owner did not create. A ledger that takes no more
entries says nothing of it, since BookKeeper's auto-recovery fences as well.
"""
