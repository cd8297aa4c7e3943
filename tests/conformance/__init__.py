"""The real Apache Pulsar classes as the judge of every decision."""
