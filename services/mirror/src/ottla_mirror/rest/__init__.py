"""The REST API of mirror workers."""
