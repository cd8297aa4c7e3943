"""Rate limits of a broker: where their rates come from, and how they are enforced."""
