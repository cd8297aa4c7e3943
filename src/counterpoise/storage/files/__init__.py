"""Ledgers in files of a shared directory: group commit, fencing by epoch, recovery.

One directory a log::

    fence                         who may write: epoch and owner, overwritten in place
    state-<epoch>.a, .b           closed ledgers and cursors, as that owner last saved them
    committed-<epoch>             how far its open ledger was committed, a moment ago
    <ledger>-<epoch>.ledger       entries, written by the owner of that epoch only

Every file carries the epoch of its writer, so a fenced owner can never overwrite its successor's.
"""
