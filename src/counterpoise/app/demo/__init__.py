"""The demonstration: an uneven cluster, its balancer on Spark, and a picture of what happened."""
