"""Topics, their producers and subscriptions: what a connection drives and the admin API shows."""
