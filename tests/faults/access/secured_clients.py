"""Listeners for the load, its users with their mechanisms, and what each of them may do; for `--secure`.

Each program is a user of its own, and says so by a mechanism that the seed draws among those that its client can.
Controllers create the users of SCRAM in the new cluster; brokers are told those of PLAIN, and where the campaign's
keys are that sign tokens. All programs but the load keep to other listeners: operators and checks to the one without
TLS, as whose user they may do everything, and brokers to the one for themselves, likewise.

A login by SCRAM-SHA-256, PLAIN or a bearer token has to be renewed while the load works (KIP-368).
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.local.secure_plan import AUTHORIZER, PRINCIPAL_RULES
from ottla_core.acls import AclBinding, Permission
from tests.faults.access.client_access import BEARER_TOKEN, DELEGATION_TOKEN, TOKEN_EXPIRY, ClientAccess
from tests.faults.access.mechanisms import LIBRDKAFKA, OUR_OWN, SASL, Mechanism, drawn_mechanism
from tests.faults.access.rights import Rights, may_read, may_write
from tests.faults.fault import BROKER, Members, id_of
from tests.faults.inner_security import InnerSecurity
from tests.faults.network import Network
from tests.support.servers.issuer import Issuer

LISTENER, LISTENER_PORT = "SASL_SSL", 9094
CERTIFICATES, CERTIFICATES_PORT = "CERTIFICATES", 9095
OUTSIDER, OUTSIDERS_TOPIC = "outsider", "outside"
ROTATING = "rotating"
"""Whose password is changed again and again."""
IMPOSTOR = "impostor"
"""Whose logins go wrong in one way each: see `impostors.py`."""
PASSWORD_BYTES = 16
SETUP_TIMEOUT_MS = "6000"
"""A handshake and a login take longer than a mere connection where processes share few processors."""
RENEWAL_MS = 20_000
RENEWED = (Mechanism.SCRAM_SHA_256, Mechanism.PLAIN, Mechanism.OAUTHBEARER)
YEAR_S: Final = 365 * 24 * 3600
"""Tokens have begun long ago and hold for long, as clocks are set wrong in a trial."""
AUDIENCE = "the load"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OUTSIDERS_BINDINGS: tuple[AclBinding, ...] = tuple(
    binding
    for binding in (*may_write(OUTSIDER, [OUTSIDERS_TOPIC]), *may_read(OUTSIDER, [OUTSIDERS_TOPIC]))
    if binding.name == OUTSIDERS_TOPIC
)
OUTSIDERS_DENIALS: tuple[AclBinding, ...] = tuple(
    AclBinding(
        kind=each.kind,
        pattern=each.pattern,
        name=each.name,
        principal=each.principal,
        host=each.host,
        operation=each.operation,
        permission=Permission.DENY,
    )
    for each in OUTSIDERS_BINDINGS
)

Abilities = Mapping[str, Sequence[Mechanism]]
"""What the clients of users can, by user; librdkafka's where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUsers:
    """The users of a cluster's load.

    Attributes:
        rights: what each may do; nobody else may do anything.
        abilities: by which mechanisms.
        seed: draws one.
    """

    rights: Rights = field(default_factory=dict)
    abilities: Abilities = field(default_factory=dict)
    seed: int = 0

    def mechanisms(self) -> dict[str, Mechanism]:
        """The mechanism of each user, and of those that every cluster has."""
        drawn = {user: drawn_mechanism(user, self.abilities.get(user, LIBRDKAFKA), self.seed) for user in self.rights}
        outsiders = drawn_mechanism(OUTSIDER, OUR_OWN, self.seed)
        return {**drawn, OUTSIDER: outsiders, ROTATING: Mechanism.SCRAM_SHA_512, IMPOSTOR: Mechanism.SCRAM_SHA_512}


class SecuredClients:
    """The users of one cluster.

    Attributes:
        mechanisms: by user.
        bindings: what the programs of the load may do, and nothing else.
        issuer: signs tokens that brokers take.
    """

    def __init__(
        self, directory: Path, members: Members, network: Network, users: LoadUsers, certificates: InnerSecurity
    ) -> None:
        self.mechanisms = users.mechanisms()
        self.bindings: list[AclBinding] = [binding for each in users.rights.values() for binding in each]
        self.issuer = Issuer()
        self.certificates = certificates
        self._addresses = {id_of(name): network.address_of(name) for name in members.of(BROKER)}
        self._passwords = {user: secrets.token_hex(PASSWORD_BYTES) for user in self.mechanisms}
        self._token_secret = secrets.token_hex(PASSWORD_BYTES)
        self._tokens: dict[str, tuple[str, str]] = {}
        self._directory = directory / f"{members.site}clients"
        self._directory.mkdir(parents=True)
        self._keys = self._directory / "keys.json"
        self._keys.write_bytes(self.issuer.key_set())
        for user, mechanism in self.mechanisms.items():
            if mechanism is not Mechanism.TOKEN:
                self.access_of(user).write(self.file_of(user))

    def addresses_of(self, user: str) -> dict[int, str]:
        """Where brokers, by their ids, take a user."""
        if self.mechanisms[user] is Mechanism.CERTIFICATE:
            return self.certificate_addresses
        return {broker: f"{address}:{LISTENER_PORT}" for broker, address in self._addresses.items()}

    @property
    def certificate_addresses(self) -> dict[int, str]:
        """Where brokers, by their ids, take users with certificates."""
        return {broker: f"{address}:{CERTIFICATES_PORT}" for broker, address in self._addresses.items()}

    def bootstrap_of(self, user: str) -> str:
        """The addresses of all brokers for a user."""
        return ",".join(self.addresses_of(user).values())

    def file_of(self, user: str) -> Path:
        """The file by which a program logs in as a user; see `ClientAccess.read`."""
        return self._directory / f"{user}.properties"

    def keep_token(self, user: str, token_id: str, secret: str) -> None:
        """Has a user log in by a delegation token from now on."""
        self._tokens[user] = token_id, secret
        self.access_of(user).write(self.file_of(user))

    def token_users(self) -> list[str]:
        """Those who need a delegation token."""
        return [user for user, mechanism in self.mechanisms.items() if mechanism is Mechanism.TOKEN]

    def access_of(self, user: str, password: str | None = None) -> ClientAccess:
        """How a user logs in, by the first password or by another one."""
        mechanism = self.mechanisms[user]
        if mechanism is Mechanism.CERTIFICATE:
            return self._tls(self.certificates.client_files(user))
        if mechanism is Mechanism.OAUTHBEARER:
            return self.bearer(self.token_of(self.issuer, user))
        if mechanism is Mechanism.TOKEN:
            return self.by_token(*self._tokens[user])
        return self.by_password(user, mechanism, password)

    def by_password(self, user: str, mechanism: Mechanism, password: str | None = None) -> ClientAccess:
        """How a user logs in by a password of its own."""
        word = password if password is not None else self._passwords[user]
        return self._tls({"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": word}, "sasl_ssl")

    def by_token(self, token_id: str, secret: str) -> ClientAccess:
        """How somebody logs in by a delegation token."""
        access = self.by_password(token_id, Mechanism.SCRAM_SHA_512, secret)
        return ClientAccess({**access.settings, DELEGATION_TOKEN: "true"})

    def bearer(self, token: str) -> ClientAccess:
        """How somebody logs in by a bearer token."""
        expires_s = str(int(time.time()) + YEAR_S)
        return self._tls(
            {"sasl.mechanism": Mechanism.OAUTHBEARER, BEARER_TOKEN: token, TOKEN_EXPIRY: expires_s}, "sasl_ssl"
        )

    def token_of(self, issuer: Issuer, user: str, *, life_s: float = YEAR_S) -> str:
        """A bearer token that holds for some seconds from now on, which may be fewer than none."""
        return issuer.token(user, life_s=life_s, iat=int(time.time()) - YEAR_S, aud=AUDIENCE)

    def _tls(self, settings: Mapping[str, str], protocol: str = "ssl") -> ClientAccess:
        return ClientAccess(
            {
                "security.protocol": protocol,
                "ssl.ca.location": str(self.certificates.authority),
                **settings,
                "socket.connection.setup.timeout.ms": SETUP_TIMEOUT_MS,
            }
        )

    def controller_properties(self) -> dict[str, str]:
        """Has controllers create the users in a cluster that has none; who needs a token logs in for it by SCRAM."""
        scram = {
            user: Mechanism.SCRAM_SHA_512 if mechanism is Mechanism.TOKEN else mechanism
            for user, mechanism in self.mechanisms.items()
            if mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512, Mechanism.TOKEN)
        }
        users = (f"{each}=[name={user},password={self._passwords[user]}]" for user, each in scram.items())
        return {"scram.bootstrap.users": ";".join(users)}

    def broker_properties(self, listeners: str, address: str) -> dict[str, str]:
        """Settings of a broker with the listeners beside others, where nobody may do what is not allowed.

        Args:
            listeners: the others.
            address: the broker's.
        """
        plain = "".join(
            f' user_{user}="{self._passwords[user]}"'
            for user, mechanism in self.mechanisms.items()
            if mechanism is Mechanism.PLAIN
        )
        brokers = [f"{BROKER}-{broker}" for broker in self._addresses]
        of_listener = f"listener.name.{LISTENER.lower()}"
        named = [each.partition("://")[0] for each in listeners.split(",")]
        protocols = {**{name: name for name in named}, LISTENER: "SASL_SSL", CERTIFICATES: "SSL"}
        return {
            "listeners": f"{listeners},{LISTENER}://{address}:{LISTENER_PORT},"
            f"{CERTIFICATES}://{address}:{CERTIFICATES_PORT}",
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            f"{of_listener}.ssl.client.auth": "none",
            f"{of_listener}.sasl.enabled.mechanisms": ",".join(SASL),
            f"{of_listener}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_nobody="{secrets.token_hex()}"'
            f"{plain};",
            f"{of_listener}.sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            f"{of_listener}.sasl.oauthbearer.expected.audience": AUDIENCE,
            **{f"{of_listener}.{each.lower()}.connections.max.reauth.ms": str(RENEWAL_MS) for each in RENEWED},
            "delegation.token.secret.key": self._token_secret,
            "delegation.token.max.lifetime.ms": str(YEAR_S * 1000),
            "delegation.token.expiry.time.ms": str(YEAR_S * 1000),
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(f"User:{each}" for each in ("ANONYMOUS", *brokers)),
            "ssl.principal.mapping.rules": PRINCIPAL_RULES,
        }
