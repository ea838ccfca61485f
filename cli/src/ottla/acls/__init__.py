"""Access control lists in a file."""
