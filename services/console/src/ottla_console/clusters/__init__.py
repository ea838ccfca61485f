"""Access to clusters: connections of each user, caches, threads, deadlines."""
