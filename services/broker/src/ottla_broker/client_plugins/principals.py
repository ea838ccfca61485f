"""Who clients are: what they have proved, through the builder of principals if one is named."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog

from ottla_core.principal import Principal

if TYPE_CHECKING:
    from ottla_sdk.broker import PrincipalBuilder

logger = structlog.get_logger("listener")


class UnknownClient(Exception):
    """A client is refused, as nobody knows who it is; the message is for the broker's log."""


NO_RULE: Final = "no rule of ssl.principal.mapping.rules is for the name in the client's certificate"


class Principals:
    """Names the clients of a broker.

    Args:
        builder: of principals; None: they are what they have proved.
        of_listeners: builders of listeners that have one of their own.
    """

    def __init__(
        self,
        builder: "PrincipalBuilder[Any] | None" = None,
        of_listeners: "Mapping[str, PrincipalBuilder[Any]] | None" = None,
    ) -> None:
        self._builder = builder
        self._of_listeners = of_listeners or {}

    def name(
        self,
        proved: Principal | None,
        *,
        address: str,
        listener: str,
        protocol: str,
        mechanism: str = "",
        is_by_token: bool = False,
        certificate: Callable[[], bytes | None] = lambda: None,
    ) -> Principal:
        """Return who a client is.

        Args:
            proved: what it has proved to be; None if there is no rule for the name in its certificate.
            address: that it has.
            listener: by which it came.
            protocol: the listener's security protocol.
            mechanism: by which it has logged in.
            is_by_token: whether it has done so with a delegation token.
            certificate: returns what it has shown, in DER.

        Raises:
            UnknownClient: it is refused.
        """
        builder = self._of_listeners.get(listener, self._builder)
        if builder is None:
            if proved is None:
                raise UnknownClient(NO_RULE)
            return proved
        from ottla_sdk.broker import AuthenticatedClient, PrincipalRefused  # noqa: PLC0415 - imported with the builder
        from ottla_sdk.broker import Principal as NamedPrincipal  # noqa: PLC0415

        client = AuthenticatedClient(
            default=None if proved is None else NamedPrincipal(proved.kind, proved.name),
            address=address,
            listener=listener,
            security_protocol=protocol,
            mechanism=mechanism,
            is_by_token=is_by_token,
            certificate=certificate(),
        )
        try:
            named = builder.build(client)
        except PrincipalRefused as refused:
            raise UnknownClient(str(refused)) from None
        except Exception as error:  # whatever a plugin does
            logger.exception("the builder of principals has failed", listener=listener, peer=address)
            raise UnknownClient(f"the builder of principals has failed: {type(error).__name__}") from None
        if not isinstance(named, NamedPrincipal) or not named.kind or not named.name:
            raise UnknownClient(
                f"the builder of principals has returned {type(named).__name__}, no principal with a name"
            )
        return Principal(named.kind, named.name)
