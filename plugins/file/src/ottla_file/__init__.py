"""Ottla Connect's connectors for files: `FileSource` follows and reads them, `FileSink` writes them."""

from ottla_file.sink import FileSink
from ottla_file.source import FileSource

__all__ = ["FileSink", "FileSource"]
