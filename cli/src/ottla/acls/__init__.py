"""Access control lists: in words, in a file, and in a cluster."""
