"""What `ottla quota` does."""
