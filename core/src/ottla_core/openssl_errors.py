"""Errors of OpenSSL, for people."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def openssl_reason(error: "ssl.SSLError") -> str:
    """Return the reason that OpenSSL gives, in lower case words."""
    return (error.reason or "no reason is given").replace("_", " ").lower()
