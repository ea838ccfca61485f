"""How a program of the load comes to a cluster: as nobody, or over TLS with a login by SCRAM.

The settings are in a file of `key=value` lines with librdkafka's names, as secrets do not belong on command lines.
Connections of our own are secured by the same settings.
"""

import secrets
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError
from kio.schema.errors import ErrorCode

from ottla_core.client.errors import AuthenticationFailed
from ottla_core.client.sasl import begin
from ottla_core.client.security import ClientSecurity, Login
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


class LoginRefused(Exception):
    """A broker has answered that this user with this password may not log in."""


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """The settings of one program's clients.

    Attributes:
        settings: librdkafka's; none for a listener that lets everybody in.
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

    def connect(self, address: str, *, within_s: float = ANSWER_DEADLINE_S) -> RawClient:
        """A connection of our own that has logged in; `within_s` is for each step.

        Raises:
            OSError: the broker cannot be reached, or has gone away meanwhile.
            Silence: it does not answer.
            LoginRefused: it does not let this user in.
        """
        security = ClientSecurity.of(self.settings)
        host, _, port = address.rpartition(":")
        client = RawClient(host, int(port), tls=security.tls, within_s=within_s)
        try:
            if security.login is not None:
                _log_in(client, security.login)
        except BaseException:
            client.close()
            raise
        return client


NOBODY = ClientAccess()


def add_access(parser: ArgumentParser) -> None:
    """Gives a program the option that names its file."""
    parser.add_argument("--access", type=ClientAccess.read, default=NOBODY, help="file with the settings of a login")


def _log_in(client: RawClient, login: Login) -> None:
    conversation = begin(login.mechanism, login.username, login.password, nonce=secrets.token_hex(16))
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
