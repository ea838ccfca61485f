"""Metrics that clients push (KIP-714): who is asked for which, what is taken, and where it goes."""
