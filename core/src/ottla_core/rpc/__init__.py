"""gRPC servers and channels, health checks and the mapping of errors to statuses."""
