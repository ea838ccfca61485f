"""What `ottla connect` is made of."""
