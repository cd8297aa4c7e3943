"""The writer of a ledger, recoverers and bookies under faults, in simulated time."""
