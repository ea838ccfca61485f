"""Ottla Connect's source of test data: `DatagenSource`."""

from ottla_datagen.source import DatagenSource

__version__ = "0.1.0"

__all__ = ["DatagenSource"]
