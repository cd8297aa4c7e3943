"""One JSON object a line, for each kind of decision: read, decided, written."""
