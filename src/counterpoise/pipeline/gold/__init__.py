"""Gold tables: daily aggregates of a history, computed by Spark SQL (`sql/`)."""
