"""The worker of Ottla Connect."""

from importlib.metadata import version

__version__ = version("ottla-connect")
