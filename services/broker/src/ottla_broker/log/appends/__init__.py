"""What a batch must fulfil before it is appended, and what settings make of it."""
