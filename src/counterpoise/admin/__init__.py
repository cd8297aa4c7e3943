"""The admin REST API of a broker, under Pulsar's own paths, JSON and status codes."""
