"""Delegation tokens (KIP-48), as a broker knows them: their secrets, and logins by them.

The secret of a token, its HMAC, is that of its id under `delegation.token.secret.key`, which all brokers share; only
the id stands in the cluster's state. Its text in base64 is the password by which a client logs in by SCRAM.

A credential is made of the password when it is asked for first, which takes milliseconds. Every answer has the same
time, whether it is made, known from before, or of no token: otherwise the time would tell which ids there are.
"""

import asyncio
import hmac
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ottla_broker.sasl.credentials import UserCredentials
from ottla_broker.sasl.exchange import FoundCredential
from ottla_core.clock import Clock
from ottla_core.cluster.state.security import DelegationToken, ScramCredential, ScramMechanism, SecurityState
from ottla_core.principal import USER, Principal
from ottla_core.scram import ITERATIONS_MIN, SALT_BYTES, credential_of, salted_password

CREDENTIALS_KEPT_MAX: Final = 1000
DERIVED_AT_ONCE_MAX: Final = 2
"""How many credentials are made of passwords at once; each takes a core for some milliseconds."""

ANSWER_SECONDS: Final = 0.05
"""After this time the answer comes about any id: long enough to make several credentials, one after the other."""


class DelegationTokens:
    """The tokens of the cluster.

    Args:
        security: returns the present state.
        secret_key: `delegation.token.secret.key`; empty: there are no tokens.
        users: makes the semblance of a token that is unknown.
        clock: says which have expired.
    """

    def __init__(
        self, security: Callable[[], SecurityState], secret_key: str, users: UserCredentials, clock: Clock
    ) -> None:
        self._security = security
        self._secret_key = secret_key.encode()
        self._users = users
        self._clock = clock
        self._hmacs_of: Mapping[str, DelegationToken] = {}
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._derived: OrderedDict[tuple[ScramMechanism, str], ScramCredential] = OrderedDict()
        self._deriving = asyncio.Semaphore(DERIVED_AT_ONCE_MAX)

    @property
    def are_enabled(self) -> bool:
        """Whether there is a secret key."""
        return bool(self._secret_key)

    def hmac_of(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        assert self.are_enabled
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    def of_hmac(self, secret: bytes) -> DelegationToken | None:
        """Return the token that a secret belongs to, None where there is none."""
        self._keep_up()
        token_id = self._ids.get(secret)
        return None if token_id is None else self._security().delegation_tokens.get(token_id)

    async def find(self, mechanism: ScramMechanism, token_id: str) -> FoundCredential:
        """Return the credential of a token, or one that fits no password where it is unknown or has expired."""
        answer_at = asyncio.get_running_loop().time() + ANSWER_SECONDS
        found = await self._find(mechanism, token_id)
        await _wait_until(answer_at)
        return found

    async def _find(self, mechanism: ScramMechanism, token_id: str) -> FoundCredential:
        token = self._security().delegation_tokens.get(token_id) if self.are_enabled else None
        if token is None or min(token.expires_ms, token.max_lifetime_ms) < self._clock.time_ms():
            semblance = self._users.semblance(mechanism, f"token {token_id}", (SALT_BYTES, ITERATIONS_MIN))
            if self.are_enabled:
                # With another salt than that of a token, an id would tell that its token has ended or never was.
                semblance = replace(semblance, salt=self._salt(token_id))
            return FoundCredential(credential=semblance, is_known=False, principal=Principal(USER, token_id))
        return FoundCredential(
            credential=await self._credential(mechanism, token_id),
            is_known=True,
            principal=Principal(*token.owner.split(":", 1)),
            expires_ms=token.expires_ms,
        )

    async def _credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        named = (mechanism, token_id)
        found = self._derived.get(named)
        if found is None:
            password = b64encode(self.hmac_of(token_id)).decode()
            salt = self._salt(token_id)
            async with self._deriving:
                salted = await asyncio.to_thread(salted_password, mechanism, password, salt, ITERATIONS_MIN)
            found = self._derived[named] = credential_of(mechanism, salted, salt, ITERATIONS_MIN)
        self._derived.move_to_end(named)
        while len(self._derived) > CREDENTIALS_KEPT_MAX:
            self._derived.popitem(last=False)
        return found

    def _salt(self, token_id: str) -> bytes:
        """Return the salt that is told of an id, whether there is such a token or not; on all brokers the same."""
        return hmac.digest(self._secret_key, b"salt " + token_id.encode(), "sha512")[:SALT_BYTES]

    def _keep_up(self) -> None:
        """Have the secrets of the tokens that there are now."""
        tokens = self._security().delegation_tokens
        if tokens is self._hmacs_of or not self.are_enabled:
            return
        for gone in self._hmacs.keys() - tokens.keys():
            del self._ids[self._hmacs.pop(gone)]
        for token_id in tokens.keys() - self._hmacs.keys():
            self._hmacs[token_id] = self.hmac_of(token_id)
            self._ids[self._hmacs[token_id]] = token_id
        self._hmacs_of = tokens


async def _wait_until(time_s: float) -> None:
    await asyncio.sleep(max(0.0, time_s - asyncio.get_running_loop().time()))
