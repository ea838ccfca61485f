"""Ottla Connect's connectors for SQL databases."""

__version__ = "0.1.0"
