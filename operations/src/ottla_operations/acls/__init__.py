"""Access control lists: in words, and in a cluster."""
