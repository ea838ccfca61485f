"""Linked partitions: what this broker leads of topics that follow those of another cluster, and how it gets them."""
