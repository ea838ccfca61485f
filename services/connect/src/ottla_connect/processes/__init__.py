"""The processes that connectors and tasks run in, seen from the worker."""
