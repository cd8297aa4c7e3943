"""One file per resource of the REST API, each with the routes it serves."""
