"""How requests show who sends them."""

import base64
import time
from collections.abc import Generator
from urllib.parse import quote_plus

import httpx

from ottla_http.client_config import HttpClientConfig
from ottla_http.url_template import shown_url

TOKEN_MARGIN_S = 30.0
TOKEN_LIFETIME_S = 300.0
"""How long a token is used whose server does not say for how long it is valid."""


class TokenRefused(Exception):
    """The token server does not give a token; `status` is its answer's, and says whether it may later."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class ApiKey(httpx.Auth):
    """A header or a query parameter."""

    def __init__(self, name: str, value: str, *, in_query: bool) -> None:
        self._name = name
        self._value = value
        self._in_query = in_query

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add it."""
        if self._in_query:
            request.url = request.url.copy_merge_params({self._name: self._value})
        else:
            request.headers[self._name] = self._value
        yield request


class Bearer(httpx.Auth):
    """A token that does not change."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add it."""
        request.headers["Authorization"] = self._header
        yield request


class ClientCredentials(httpx.Auth):
    """Tokens by OAuth 2's client credentials grant (RFC 6749, section 4.4).

    A token is used until shortly before it expires. When a request is answered by 401 all the same, it is repeated
    once with a new token.
    """

    def __init__(self, url: str, client_id: str, secret: str, *, scopes: str, secret_in_body: bool) -> None:
        self._url = url
        self._form = {"grant_type": "client_credentials"} | ({"scope": scopes} if scopes else {})
        self._headers = {"Accept": "application/json"}
        if secret_in_body:
            self._form |= {"client_id": client_id, "client_secret": secret}
        else:
            login = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._token: str | None = None
        self._until_s = 0.0

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add a token; get one first if there is none.

        Raises:
            TokenRefused: there is none to be had.
        """
        token = self._token if time.monotonic() < self._until_s else None
        is_new = token is None
        if token is None:
            token = self._taken((yield self._request()))
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and not is_new:
            request.headers["Authorization"] = f"Bearer {self._taken((yield self._request()))}"
            yield request

    def _request(self) -> httpx.Request:
        return httpx.Request("POST", self._url, data=self._form, headers=self._headers)

    def _taken(self, response: httpx.Response) -> str:
        response.read()
        try:
            if not response.is_success:
                raise ValueError(response.status_code)
            answer = response.json()
            token = answer["access_token"]
            lifetime_s = float(answer.get("expires_in") or TOKEN_LIFETIME_S)
        except (ValueError, KeyError, TypeError, AttributeError):
            self._token = None
            said = f"{response.status_code} {_error_code(response)}".rstrip()
            raise TokenRefused(
                response.status_code, f"the token server {shown_url(self._url)} answered {said}"
            ) from None
        if not isinstance(token, str) or not token.isascii():
            raise TokenRefused(
                response.status_code, f"the token server {shown_url(self._url)} answered without a token"
            )
        self._token = token
        self._until_s = time.monotonic() + max(lifetime_s - TOKEN_MARGIN_S, lifetime_s / 2)
        return token


def _error_code(response: httpx.Response) -> str:
    """Return OAuth 2's word for what is wrong, such as ``invalid_client``."""
    try:
        return f"({str(response.json()['error'])[:100]})"
    except (ValueError, KeyError, TypeError):
        return ""


def authorization(config: HttpClientConfig) -> httpx.Auth | None:
    """Return what the settings say."""

    def secret(value: object) -> str:
        revealed: str = value.get_secret_value()  # type: ignore[attr-defined]
        return revealed

    match config.auth:
        case "none":
            return None
        case "basic":
            return httpx.BasicAuth(config.username, secret(config.password))
        case "bearer":
            return Bearer(secret(config.token))
        case "api-key":
            return ApiKey(config.api_key_name, secret(config.api_key_value), in_query=config.api_key_in == "query")
        case "oauth2":
            return ClientCredentials(
                config.token_url,
                config.client_id,
                secret(config.client_secret),
                scopes=config.scopes,
                secret_in_body=config.client_secret_in == "body",  # noqa: S105 - where the secret is, not what
            )
