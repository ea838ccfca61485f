"""The worker of Ottla Connect."""

__version__ = "0.1.0"
