"""The mirror worker: one cluster follows another."""

from importlib.metadata import version

__version__ = version("ottla-mirror")
