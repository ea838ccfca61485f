"""What a provider's own document has to say."""

import json
from typing import Any

import pytest

from ottla_console.openid.discovery import BadDiscovery, Endpoints, endpoints_of

ISSUER = "https://idp.example/realm"


def document(**others: Any) -> bytes:
    told = {
        "issuer": ISSUER,
        "authorization_endpoint": "https://idp.example/authorize",
        "token_endpoint": "https://idp.example/token",
        "jwks_uri": "https://idp.example/keys",
    }
    return json.dumps({**told, **others}).encode()


def test_the_endpoints_are_found_and_secrets_are_shown_as_the_provider_takes_them() -> None:
    assert endpoints_of(document(), ISSUER) == Endpoints(
        authorization="https://idp.example/authorize",
        token="https://idp.example/token",
        keys="https://idp.example/keys",
        end_session=None,
        secret_by="basic",
    )
    posts = endpoints_of(document(token_endpoint_auth_methods_supported=["client_secret_post"]), ISSUER)
    assert posts.secret_by == "post"
    both = ["client_secret_post", "client_secret_basic"]
    assert endpoints_of(document(token_endpoint_auth_methods_supported=both), ISSUER).secret_by == "basic"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<html>", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"[]", "no JSON object"),
        (document(issuer="https://evil.example"), "https://evil.example"),
        (document(issuer=ISSUER + "/"), "of the issuer"),
        (document(token_endpoint=None), "no token_endpoint"),
        (document(token_endpoint="http://idp.example/token"), "token_endpoint: it is no https"),
        (document(jwks_uri="file:///etc/passwd"), "jwks_uri: it is no https"),
        (document(authorization_endpoint="javascript:alert(1)"), "authorization_endpoint: it is no https"),
        (document(end_session_endpoint="javascript:alert(1)"), "end_session_endpoint: it is no https"),
    ],
)
def test_a_document_that_leads_elsewhere_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(BadDiscovery, match=told):
        endpoints_of(content, ISSUER)
