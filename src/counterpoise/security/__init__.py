"""TLS, authentication and authorization: of a broker's clients, and of brokers as clients."""
