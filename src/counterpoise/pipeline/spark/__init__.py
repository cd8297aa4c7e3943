"""What all Spark jobs of the pipeline share: shipping code, and waiting for executors."""
