"""What is deployed: the chart, the hooks of brokers, the images."""
