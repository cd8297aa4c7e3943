"""Gold tables: what people ask a history for, worked out day by day by Spark SQL (`sql/`)."""
