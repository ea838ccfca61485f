"""Transactions of a cluster."""
