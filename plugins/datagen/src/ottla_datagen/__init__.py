"""Ottla Connect's source of test data: `DatagenSource`."""

from ottla_datagen.source import DatagenSource

__all__ = ["DatagenSource"]
