"""What every answer tells browsers: run, load and frame nothing that is not the console's own. Pure."""

from collections.abc import Mapping
from typing import Final

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
ONLY_TLS: Final[Mapping[str, str]] = {"strict-transport-security": "max-age=31536000"}


def security_headers(*, with_tls: bool) -> dict[str, str]:
    """Return the headers of an answer."""
    return {**HEADERS, **(ONLY_TLS if with_tls else {})}
