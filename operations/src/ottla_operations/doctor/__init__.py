"""What is wrong with a cluster, in the order of harm, and what mends it."""
