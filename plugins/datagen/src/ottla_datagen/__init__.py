"""Ottla Connect's source of test data."""

__version__ = "0.1.0"
