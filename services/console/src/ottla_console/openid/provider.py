"""How a provider is asked: its document, the address where browsers sign in, and its token endpoint.

Everything blocks, and is for threads. No redirect is followed, and no proxy of the environment used: the secret and
the codes go to the addresses that the provider's own document names.
"""

import base64
import hashlib
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx

from ottla_console.config.openid_settings import OpenIdSettings
from ottla_console.openid.discovery import PATH, BadDiscovery, Endpoints, endpoints_of
from ottla_console.openid.sign_in_attempts import Attempt
from ottla_console.openid.token_answer import BadTokenAnswer, TokenAnswer, refusal_of, token_answer
from ottla_core.errors import ConfigurationError
from ottla_operations.errors import OperationError

ANSWER_WITHIN_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 1024 * 1024
DISCOVERED_FOR_S: Final = 3600.0
POST: Final = "post"
"""By which way of `Endpoints.secret_by` the secret is in the form."""


class ProviderRefused(OperationError):
    """The provider does not accept what it is shown, such as a code or a refresh token."""


class OpenIdProvider:
    """One provider.

    Args:
        settings: which.

    Raises:
        ConfigurationError: the authorities of its certificate cannot be read.
    """

    def __init__(self, settings: OpenIdSettings) -> None:
        self.settings = settings
        try:
            trusted = ssl.create_default_context(cafile=settings.authorities)
        except OSError as error:
            raise ConfigurationError(f"oidc.ca.location: {settings.authorities}: {error}") from None
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, verify=trusted, trust_env=False)
        self._lock = threading.Lock()
        self._endpoints: Endpoints | None = None
        self._discovered_s = 0.0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def endpoints(self) -> Endpoints:
        """Return what the provider says of itself, at most an hour old.

        Raises:
            OperationError: it does not answer, or says what cannot be used.
        """
        # Whoever waited behind all others would be in a thread for as long as all of them ask.
        if not self._lock.acquire(timeout=ANSWER_WITHIN_S):
            raise OperationError(f"{self._named} does not say how to sign in: it does not answer in time")
        try:
            now_s = time.monotonic()
            if self._endpoints is None or now_s - self._discovered_s > DISCOVERED_FOR_S:
                status, content = self._ask("GET", self.settings.issuer.rstrip("/") + PATH)
                if status != httpx.codes.OK:
                    raise OperationError(f"{self._named} does not say how to sign in: it answers {status}")
                try:
                    self._endpoints = endpoints_of(content, self.settings.issuer)
                except BadDiscovery as problem:
                    raise OperationError(f"the document of {self._named} cannot be used: {problem}") from None
                self._discovered_s = now_s
            return self._endpoints
        finally:
            self._lock.release()

    def sign_in_address(self, attempt: Attempt) -> str:
        """Return where a browser goes to sign in; errors as those of `endpoints`."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = self.endpoints().authorization
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    def redeem(self, code: str, attempt: Attempt) -> TokenAnswer:
        """Return the tokens for a code.

        Raises:
            ProviderRefused: it is wrong, or was used before.
            OperationError: the provider does not answer, or not with tokens.
        """
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.settings.redirect_uri}
        return self._tokens({**form, "code_verifier": attempt.verifier})

    def refreshed(self, refresh_token: str) -> TokenAnswer:
        """Return new tokens for a refresh token; errors as those of `redeem`."""
        return self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def _tokens(self, form: Mapping[str, str]) -> TokenAnswer:
        endpoints = self.endpoints()
        named = self.settings.client_id
        secret, headers = self.settings.client_secret, {"accept": "application/json"}
        if secret is None:
            form = {**form, "client_id": named}
        elif endpoints.secret_by == POST:
            form = {**form, "client_id": named, "client_secret": secret}
        else:  # each of both encoded before they are joined: RFC 6749, section 2.3.1
            login = base64.b64encode(f"{quote_plus(named)}:{quote_plus(secret)}".encode()).decode()
            headers["authorization"] = f"Basic {login}"
        status, content = self._ask("POST", endpoints.token, form, headers)
        if 400 <= status < 500:
            raise ProviderRefused(f"{self._named} does not accept it: {refusal_of(content) or status}")
        try:
            if status != httpx.codes.OK:
                raise BadTokenAnswer(f"it answers {status}")
            return token_answer(content)
        except BadTokenAnswer as problem:
            raise OperationError(f"{self._named} gives no tokens: {problem}") from None

    def _ask(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        content = bytearray()
        ends_s = time.monotonic() + ANSWER_WITHIN_S
        try:
            with self._client.stream(method, url, data=form, headers=headers) as answer:
                for piece in answer.iter_bytes():
                    content += piece
                    # A timeout of the client is one of each read, so whoever drips would be waited for.
                    if len(content) > ANSWER_BYTES_MAX or time.monotonic() > ends_s:
                        raise OperationError(f"{self._named} does not come to an end with its answer")
                return answer.status_code, bytes(content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise OperationError(f"{self._named} cannot be reached: {reason}") from None

    @property
    def _named(self) -> str:
        return f"the OpenID provider {self.settings.issuer}"
