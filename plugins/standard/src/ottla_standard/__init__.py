"""Ottla Connect's standard converters, transforms, predicates and config providers."""

__version__ = "0.1.0"
