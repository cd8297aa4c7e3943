"""What all Spark jobs of the pipeline share: they ship code to executors, and wait for them."""
