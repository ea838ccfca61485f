"""How a program of the load comes to a cluster: as nobody, or over TLS with a login or a certificate.

The settings are in a file of `key=value` lines with librdkafka's names, as secrets do not belong on command lines.
Connections of our own are secured by the same settings.
"""

import secrets
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaError
from kio.schema.errors import ErrorCode

from ottla_core.client.errors import AuthenticationFailed
from ottla_core.client.sasl import Conversation, Scram, begin
from ottla_core.client.security import ClientSecurity, GivenTokens, Login
from tests.support.clients.raw_client import ANSWER_DEADLINE_S, RawClient
from tests.support.messages.sparse_request import sparse_request

REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""What nobody must be told who has a login and the right."""

BEARER_TOKEN = "sasl.oauthbearer.config"
"""librdkafka hands this to whoever gives it tokens; here it is the token."""
TOKEN_EXPIRY = "token.expires.s"
"""When the bearer token expires, in seconds since 1970; ours, not librdkafka's."""
DELEGATION_TOKEN = "token.is.delegated"
"""Whether name and password are those of a delegation token; ours as well."""


class LoginRefused(Exception):
    """A broker has answered that this user with this password may not log in."""


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """The settings of one program's clients.

    Attributes:
        settings: librdkafka's, and ours; none for a listener that lets everybody in.
    """

    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """The access that a file tells of."""
        pairs = (line.partition("=") for line in Path(file).read_text().splitlines())
        return cls({key: value for key, _, value in pairs})

    def write(self, file: Path) -> Path:
        """Writes the file for `read`, so that only its owner can read it."""
        file.touch(mode=0o600)
        file.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        return file

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings of a client of librdkafka, which asks for a bearer token by a function."""
        settings: dict[str, Any] = {key: value for key, value in self.settings.items() if key not in OURS}
        if BEARER_TOKEN in settings:
            settings["oauth_cb"] = self._token_and_expiry()
        return settings

    @property
    def security_settings(self) -> dict[str, str]:
        """What a worker or a link is told, without the patience of clients."""
        return {key: value for key, value in self.settings.items() if key.startswith(("security.", "ssl.", "sasl."))}

    def _token_and_expiry(self) -> Callable[[str], tuple[str, float]]:
        expires_s = float(self.settings[TOKEN_EXPIRY])
        return lambda token: (token, expires_s)

    def connect(self, address: str, *, within_s: float = ANSWER_DEADLINE_S) -> RawClient:
        """A connection of our own that has logged in; `within_s` is for each step.

        Raises:
            OSError: the broker cannot be reached, or has gone away meanwhile.
            Silence: it does not answer.
            LoginRefused: it does not let this user in.
        """
        token = self.settings.get(BEARER_TOKEN, "")
        security = ClientSecurity.of(self.settings, GivenTokens("", lambda: token) if token else None)
        login = security.login_now(within_s)
        host, _, port = address.rpartition(":")
        client = RawClient(host, int(port), tls=security.tls, within_s=within_s)
        try:
            if login is not None:
                _log_in(client, login, _conversation(login, by_token=DELEGATION_TOKEN in self.settings))
        except BaseException:
            client.close()
            raise
        return client


OURS = frozenset({TOKEN_EXPIRY, DELEGATION_TOKEN})
NOBODY = ClientAccess()


def add_access(parser: ArgumentParser) -> None:
    """Gives a program the option that names its file."""
    parser.add_argument("--access", type=ClientAccess.read, default=NOBODY, help="file with the settings of a login")


class _ScramByToken(Scram):
    """SCRAM that says that the name is the id of a delegation token."""

    def __init__(self, hash_name: str, token_id: str, secret: str, nonce: str) -> None:
        super().__init__(hash_name, token_id, secret, nonce)
        self._first += ",tokenauth=true"


def _conversation(login: Login, *, by_token: bool) -> Conversation:
    nonce = secrets.token_hex(16)
    if by_token:
        return _ScramByToken("sha512", login.username, login.password, nonce)
    return begin(login.mechanism, login.username, login.password, nonce=nonce)


def _log_in(client: RawClient, login: Login, conversation: Conversation) -> None:
    shaken = client.ask(sparse_request("sasl_handshake", 1, mechanism=login.mechanism))
    if shaken.error_code is not ErrorCode.none:
        raise LoginRefused(f"{login.username}: {shaken.error_code.name}")
    message: bytes | None = conversation.first()
    while message is not None:
        answer = client.ask(sparse_request("sasl_authenticate", 2, auth_bytes=message))
        if answer.error_code is not ErrorCode.none:
            raise LoginRefused(f"{login.username}: {answer.error_code.name}: {answer.error_message}")
        try:
            message = conversation.respond(answer.auth_bytes)
        except AuthenticationFailed as error:
            raise LoginRefused(f"{login.username}: {error}") from error
