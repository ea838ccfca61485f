"""The group coordinator: consumer groups, their members and their committed offsets."""

from importlib.metadata import version

__version__ = version("ottla-group-coordinator")
