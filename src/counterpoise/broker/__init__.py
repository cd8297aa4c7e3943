"""A broker on asyncio: connections, topics, bundles and their moves, limits, load reports."""
