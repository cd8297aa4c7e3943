"""Names and places: topics, namespaces, bundles, brokers, and the hash that connects them."""
