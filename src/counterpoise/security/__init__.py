"""Who talks to whom, and whether they may: TLS, credentials, roles and permissions."""
