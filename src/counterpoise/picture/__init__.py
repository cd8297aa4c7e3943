"""What a person is shown of a cluster: from frozen views to what a page draws, without a page."""
