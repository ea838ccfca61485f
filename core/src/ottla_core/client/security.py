"""How a connection is secured, by librdkafka's names of the settings.

`security.protocol`, `sasl.mechanism`, `sasl.username` and `sasl.password`; what begins with `ssl.` is in `tls.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla_core.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_DEFAULT_MECHANISM: Final = "GSSAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who we are to the brokers; the mechanism is one of `MECHANISMS`."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """What a connection is made with.

    Attributes:
        tls: the TLS context; None for connections without TLS.
        login: name and password; None where there is no SASL.
    """

    tls: "ssl.SSLContext | None" = None
    login: Login | None = None

    @classmethod
    def of(cls, client: Mapping[str, str]) -> "ClientSecurity":
        """Return what a client's settings say; those that are about other things are passed over.

        Raises:
            ConfigurationError: something is missing, not supported, or a file cannot be used.
        """
        protocol = client.get("security.protocol", "plaintext").lower()
        if protocol not in _PROTOCOLS:
            raise ConfigurationError(f"security.protocol: {protocol} is unknown; {', '.join(_PROTOCOLS)} are not")
        login = _login(client) if protocol.startswith("sasl") else None
        if not protocol.endswith("ssl"):
            return cls(login=login)
        from ottla_core.client.tls import tls_context  # noqa: PLC0415 - see the package

        return cls(tls=tls_context(client), login=login)


def _login(client: Mapping[str, str]) -> Login:
    mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or _DEFAULT_MECHANISM
    if mechanism.upper() not in MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism: {mechanism} is not supported here; {', '.join(MECHANISMS)} are")
    missing = [key for key in ("sasl.username", "sasl.password") if not client.get(key)]
    if missing:
        raise ConfigurationError(f"{' and '.join(missing)}: must be set for {mechanism}")
    return Login(mechanism=mechanism.upper(), username=client["sasl.username"], password=client["sasl.password"])
