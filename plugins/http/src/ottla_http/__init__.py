"""Ottla Connect's connectors for HTTP."""

__version__ = "0.1.0"
