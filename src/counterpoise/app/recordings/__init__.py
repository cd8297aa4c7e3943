"""What clients did, in a file, and again against brokers of now."""
