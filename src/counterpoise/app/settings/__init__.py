"""Which settings exist, who reads each, and what a configuration of them really does."""
