"""Quotas of clients."""
