"""Ottla Connect's connectors for HTTP: `HttpSource` asks web services, `HttpSink` sends to them."""

from ottla_http.sink import HttpSink
from ottla_http.source import HttpSource

__all__ = ["HttpSink", "HttpSource"]
