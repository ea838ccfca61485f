"""Replication: what a leader knows of its followers, and how a follower becomes equal to its leader."""
