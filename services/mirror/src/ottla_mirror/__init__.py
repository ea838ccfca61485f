"""The mirror worker: one cluster follows another."""

__version__ = "0.1.0"
