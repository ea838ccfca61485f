"""What the workers of a cluster remember: configurations, statuses, source offsets."""
