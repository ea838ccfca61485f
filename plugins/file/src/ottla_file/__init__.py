"""Ottla Connect's connectors for files."""

__version__ = "0.1.0"
