"""Converters that need nothing but the bytes: JSON, strings, bytes, numbers, booleans, headers. Pure."""
