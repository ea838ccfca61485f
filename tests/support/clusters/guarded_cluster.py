"""A local cluster where users log in by PLAIN and have the rights that the documentation gives them, no others."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.documented_rights import files_of
from tests.support.free_ports import LOOPBACK, free_ports

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class GuardedCluster:
    """The cluster; who comes by its listener without logins may do everything.

    Attributes:
        address: of the listener with logins.
        ottla: the command, of whom may do everything.
    """

    def __init__(self, directory: Path, users: Sequence[str]) -> None:
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        self._users = users
        self._directory = directory
        named = " ".join(f'user_{user}="{_password(user)}"' for user in users)
        settings = {
            "listeners": f"LOGINS://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.logins.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {named};",
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        arguments = [word for key, value in settings.items() for word in ("--set", f"broker:{key}={value}")]
        self._cluster = OttlaCluster(directory / "cluster", arguments=arguments)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        try:
            self.ottla = Ottla(self._cluster.bootstrap)
            for number, text in enumerate(files_of(*self._users)):
                file = self._directory / f"{number}.yaml"
                file.write_text(text)
                self.ottla.run("acl", "apply", str(file), "--yes")
        except BaseException as error:
            self._cluster.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    def login(self, user: str, prefix: str = "") -> dict[str, str]:
        """As whom somebody comes to brokers, with a prefix of the settings."""
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": _password(user),
        }
        return {f"{prefix}{key}": value for key, value in settings.items()}


def _password(user: str) -> str:
    return f"{user} word"
