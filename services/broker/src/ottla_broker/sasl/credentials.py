"""Finds what a login by SCRAM is checked by: users in the cluster's state, and a semblance for unknown ones.

A client that names an unknown user is shown a salt and iterations like a real user's. They follow from the name and a
secret of the cluster, the random credential of `NOBODY`, which the controller writes beside the first user; so they
stay the same over brokers and restarts, and so does what is told of real users. Pure.
"""

import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from ottla_broker.sasl.exchange import FoundCredential
from ottla_core.cluster.state.security import ScramCredential, ScramMechanism, SecurityState
from ottla_core.principal import USER, Principal
from ottla_core.scram import ITERATIONS_DEFAULT, NOBODY, SALT_BYTES, hash_name

USERS_LOOKED_AT_MAX: Final = 1000
"""Of so many users the usual length of salts and number of iterations is taken."""

Credentials = Mapping[tuple[ScramMechanism, str], ScramCredential]
_Shape = tuple[int, int]
"""Length of the salt in bytes, iterations."""


class UserCredentials:
    """The users of SCRAM.

    Args:
        security: returns the present state.
        secret: random; stands in for that of the cluster while there are no users.
    """

    def __init__(self, security: Callable[[], SecurityState], secret: bytes) -> None:
        self._security = security
        self._secret = secret
        self._shapes_of: Credentials | None = None
        self._shapes: dict[ScramMechanism, _Shape] = {}

    def find(self, mechanism: ScramMechanism, user: str) -> FoundCredential:
        """Return the credential of a user, or one that fits no password."""
        credentials = self._security().scram_credentials
        found = credentials.get((mechanism, user)) if user != NOBODY else None
        if found is not None:
            return FoundCredential(credential=found, is_known=True, principal=Principal(USER, user))
        shape = self._shape(mechanism, credentials)
        semblance = self.semblance(mechanism, user, shape)
        return FoundCredential(credential=semblance, is_known=False, principal=Principal(USER, user))

    def semblance(self, mechanism: ScramMechanism, name: str, shape: _Shape) -> ScramCredential:
        """Return a credential that fits no password; the same for the same name."""
        nobody = self._security().scram_credentials.get((mechanism, NOBODY))
        secret = self._secret if nobody is None else nobody.server_key
        salt_bytes, iterations = shape
        salt = hmac.digest(secret, b"salt " + name.encode(), "sha512")[:salt_bytes]
        key = hmac.digest(secret, b"key " + name.encode(), hash_name(mechanism))
        return ScramCredential(salt=salt, stored_key=key, server_key=key, iterations=iterations)

    def _shape(self, mechanism: ScramMechanism, credentials: Credentials) -> _Shape:
        """Return how long salts usually are, and how many iterations there usually are."""
        if credentials is not self._shapes_of:
            self._shapes_of, self._shapes = credentials, _usual_shapes(credentials)
        return self._shapes.get(mechanism, (SALT_BYTES, ITERATIONS_DEFAULT))


def _usual_shapes(credentials: Credentials) -> dict[ScramMechanism, _Shape]:
    counts: dict[ScramMechanism, Counter[_Shape]] = {}
    for (mechanism, user), credential in islice(credentials.items(), USERS_LOOKED_AT_MAX):
        if user != NOBODY:
            shape = (min(len(credential.salt), 64), credential.iterations)
            counts.setdefault(mechanism, Counter())[shape] += 1
    return {mechanism: found.most_common(1)[0][0] for mechanism, found in counts.items()}
