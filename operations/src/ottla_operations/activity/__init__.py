"""What happens in a cluster: rates between two looks at it."""
