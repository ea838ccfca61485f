"""The small topics that mirrors keep their own records in."""
