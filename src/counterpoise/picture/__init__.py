"""What a person is shown of a cluster: from frozen views to drawable values, without a page."""
