"""The controller: the one writer of cluster state."""

from importlib.metadata import version

__version__ = version("ottla-controller")
