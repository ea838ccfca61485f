"""A listener for the load with TLS and logins, its users, and what each of them may do; for `--secure`.

Each program is a user of its own. Controllers create the users in the new cluster, and all programs but the load keep
to other listeners: operators and checks to the one without TLS, as whose user they may do everything, brokers and
mirror workers to the one for certificates, likewise.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

from ottla.local.secure_plan import AUTHORIZER, PRINCIPAL_RULES
from ottla_core.acls import AclBinding
from tests.faults.access.client_access import ClientAccess
from tests.faults.access.rights import Rights, may_read, may_write
from tests.faults.fault import BROKER, Members, id_of, role_of
from tests.faults.network import Network

LISTENER, LISTENER_PORT = "SASL_SSL", 9094
MECHANISM = "SCRAM-SHA-512"
OUTSIDER, OUTSIDERS_TOPIC = "outsider", "outside"
ROTATING = "rotating"
"""Whose password is changed again and again."""
PASSWORD_BYTES = 16
SETUP_TIMEOUT_MS = "6000"
"""A handshake and a login take longer than a mere connection where processes share few processors."""
OUTSIDERS_BINDINGS: tuple[AclBinding, ...] = tuple(
    binding
    for binding in (*may_write(OUTSIDER, [OUTSIDERS_TOPIC]), *may_read(OUTSIDER, [OUTSIDERS_TOPIC]))
    if binding.name == OUTSIDERS_TOPIC
)


class SecuredClients:
    """The users of one cluster.

    Attributes:
        addresses: of the listener, by the broker's id.
        bindings: what the programs of the load may do, and nothing else.
    """

    def __init__(self, directory: Path, members: Members, network: Network, rights: Rights, authority: Path) -> None:
        self.addresses = {id_of(name): f"{network.address_of(name)}:{LISTENER_PORT}" for name in members.of(BROKER)}
        self.bindings: list[AclBinding] = [binding for each in rights.values() for binding in each]
        self._authority = authority
        self._brokers = [f"{BROKER}-{id_of(name)}" for name in members.of(BROKER)]
        self._passwords = {user: secrets.token_hex(PASSWORD_BYTES) for user in (*rights, OUTSIDER, ROTATING)}
        self._directory = directory / f"{members.site}clients"
        self._directory.mkdir(parents=True)
        for user in self._passwords:
            self.access_of(user).write(self.file_of(user))

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(self.addresses.values())

    def file_of(self, user: str) -> Path:
        """The file by which a program logs in as a user; see `ClientAccess.read`."""
        return self._directory / f"{user}.properties"

    def access_of(self, user: str, password: str | None = None) -> ClientAccess:
        """How a user logs in, by the first password or by another one."""
        return ClientAccess(
            {
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": str(self._authority),
                "sasl.mechanism": MECHANISM,
                "sasl.username": user,
                "sasl.password": password or self._passwords[user],
                "socket.connection.setup.timeout.ms": SETUP_TIMEOUT_MS,
            }
        )

    def controller_properties(self) -> dict[str, str]:
        """Has controllers create the users in a cluster that has none."""
        users = (f"{MECHANISM}=[name={user},password={word}]" for user, word in self._passwords.items())
        return {"scram.bootstrap.users": ";".join(users)}

    def broker_properties(self, listeners: str, address: str, workers: Sequence[str]) -> dict[str, str]:
        """Settings of a broker with the listener beside others, where nobody may do what is not allowed.

        Args:
            listeners: the others.
            address: the broker's.
            workers: mirror workers, which may do everything.
        """
        trusted = ["ANONYMOUS", *self._brokers, *(f"{role_of(each)}-{id_of(each)}" for each in workers)]
        return {
            "listeners": f"{listeners},{LISTENER}://{address}:{LISTENER_PORT}",
            f"listener.name.{LISTENER.lower()}.ssl.client.auth": "none",
            "sasl.enabled.mechanisms": MECHANISM,
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(f"User:{each}" for each in trusted),
            "ssl.principal.mapping.rules": PRINCIPAL_RULES,
        }
