"""An OpenID provider on this machine that signs in whoever comes, and can be told to lie.

Its keys are an `Issuer`'s, so a broker that knows these takes its access tokens. It checks what RFC 7636 has it
check, takes each code once, and remembers what it was asked.
"""

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.free_ports import LOOPBACK
from tests.support.servers.issuer import Issuer

POLL_S = 0.02
"""How long it may take to end."""
CLIENT_ID, CLIENT_SECRET = "console", "a secret, with : and %"


class OpenIdServer(ThreadingHTTPServer):
    """Tests change what it says.

    Attributes:
        issuer: whose keys its key set has; tokens are signed by `signer`, which is the same by default.
        subject: who signs in.
        claims: of ID tokens, besides or instead of the usual; None leaves one out.
        access_claims: of access tokens, likewise.
        life_s: of access tokens.
        id_token: instead of one with these claims.
        refreshes: whether refresh tokens are good.
        codes: attempts by code.
        forms: what its token endpoint was sent.
    """

    daemon_threads = False

    def __init__(self, issuer: Issuer | None = None) -> None:
        super().__init__((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self.server_port}"
        self.issuer = self.signer = issuer or Issuer()
        self.subject = "ann"
        self.claims: dict[str, Any] = {}
        self.access_claims: dict[str, Any] = {}
        self.life_s = 300.0
        self.id_token: str | None = None
        self.refreshes = True
        self.codes: dict[str, Mapping[str, str]] = {}
        self.forms: list[Mapping[str, str]] = []
        self._serving = threading.Thread(target=self.serve_forever, args=(POLL_S,))

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._serving.join()
        self.server_close()

    def document(self) -> Mapping[str, object]:
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return {"issuer": self.url, **{name: f"{self.url}/{path}" for name, path in paths.items()}}

    def authorized(self, query: Mapping[str, str]) -> str:
        """Where a browser goes from the page for signing in."""
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def tokens(self, form: Mapping[str, str], login: str) -> tuple[int, Mapping[str, object]]:
        """What the token endpoint answers."""
        self.forms.append(form)
        if login != f"{CLIENT_ID}:a+secret%2C+with+%3A+and+%25":
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            return self._given(None) if self.refreshes else (400, {"error": "invalid_grant"})
        query = self.codes.pop(form["code"], None)
        if query is None or query["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "the code is not good"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        if query["code_challenge_method"] != "S256" or challenge.rstrip("=") != query["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "the verifier is another"}
        return self._given(query["nonce"])

    def _given(self, nonce: str | None) -> tuple[int, Mapping[str, object]]:
        access = self.issuer.token(self.subject, life_s=self.life_s, iss=self.url, **self.access_claims)
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": self.life_s, "refresh_token": "again"}
        if nonce is None:
            return 200, answer
        told = {"iss": self.url, "aud": CLIENT_ID, "nonce": nonce, **self.claims}
        claims = {name: value for name, value in told.items() if value is not None}
        return 200, {**answer, "id_token": self.id_token or self.signer.token(self.subject, **claims)}


class Handler(BaseHTTPRequestHandler):
    server: OpenIdServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.server.authorized(dict(parse_qsl(parts.query))))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif parts.path == "/keys":
            self._answer(200, self.server.issuer.key_set())
        else:
            self._answer(200, json.dumps(self.server.document()).encode())

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        status, answer = self.server.tokens(form, login)
        self._answer(status, json.dumps(answer).encode())

    def _answer(self, status: int, content: bytes) -> None:
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass
