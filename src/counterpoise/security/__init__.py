"""TLS, credentials, roles and permissions."""
