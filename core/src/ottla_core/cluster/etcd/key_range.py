"""Ranges of keys in etcd."""


def range_end(prefix: str) -> bytes:
    """Return the exclusive end of the range of all keys that begin with `prefix`."""
    encoded = prefix.encode()
    return encoded[:-1] + bytes([encoded[-1] + 1])
