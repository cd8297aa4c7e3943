"""Logs on Apache BookKeeper, laid out as Pulsar's managed ledgers.

A topic has one node in the metadata store, which lists the BookKeeper ledgers of its messages; the
last one is written. Below it each cursor has a node. An owner has lost the log only if the last
ledger of the list is one that it did not create. A ledger that accepts no more entries proves
nothing, since BookKeeper's auto-recovery fences ledgers as well.
"""
