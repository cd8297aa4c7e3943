"""Names of topics, namespaces, bundles and brokers, and the hash that maps topics to bundles."""
