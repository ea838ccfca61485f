"""What a provider says of itself (OpenID Connect Discovery 1.0). Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla_console.config.openid_settings import problem_of_address

PATH: Final = "/.well-known/openid-configuration"
SECRET_METHODS: Final = ("client_secret_basic", "client_secret_post")


class BadDiscovery(Exception):
    """A provider's document cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where a provider is asked for what.

    Attributes:
        authorization: where browsers sign in.
        token: where codes and refresh tokens become tokens.
        keys: its JSON Web Key Set.
        end_session: where users sign out of the provider itself; None where there is no such page.
        secret_by: how the client shows its secret.
    """

    authorization: str
    token: str
    keys: str
    end_session: str | None
    secret_by: Literal["basic", "post"]


def endpoints_of(content: bytes, issuer: str) -> Endpoints:
    """Return what a document says.

    Args:
        content: the document.
        issuer: whose it has to be: another provider's would lend this one's name to tokens of its own.

    Raises:
        BadDiscovery: it is another issuer's, or lacks something.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BadDiscovery("it is no JSON object")
    if document.get("issuer") != issuer:
        raise BadDiscovery(f"it is of the issuer {str(document.get('issuer'))[:200]}, and not of {issuer}")
    methods = document.get("token_endpoint_auth_methods_supported", SECRET_METHODS[:1])
    if not isinstance(methods, list | tuple) or not any(each in methods for each in SECRET_METHODS):
        methods = SECRET_METHODS[:1]
    return Endpoints(
        authorization=_address(document, "authorization_endpoint"),
        token=_address(document, "token_endpoint"),
        keys=_address(document, "jwks_uri"),
        end_session=_address(document, "end_session_endpoint") if document.get("end_session_endpoint") else None,
        secret_by="basic" if SECRET_METHODS[0] in methods else "post",
    )


def _address(document: Mapping[str, Any], name: str) -> str:
    url = document.get(name)
    if not isinstance(url, str):
        raise BadDiscovery(f"it has no {name}")
    if problem := problem_of_address(url):
        raise BadDiscovery(f"{name}: {problem}")
    return url
