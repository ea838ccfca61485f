"""Changes of users and delegation tokens, one at a time with all other changes.

`scram_credentials` and `token_changes` decide.
"""

import asyncio
from collections.abc import Sequence
from secrets import token_bytes
from typing import Final

import structlog

from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.fenced_writer import Write
from ottla_controller.scram_credentials import Named, plan_alterations, plan_first_users
from ottla_controller.token_changes import altered_token, created_token, ended_tokens
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.controller_rpc.login_api import (
    AlteredUser,
    NewToken,
    ScramDeletion,
    ScramUpsertion,
    TokenLifetime,
    TokenTimes,
)
from ottla_core.cluster.state import security_codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.security import DelegationToken, ScramCredential, ScramMechanism
from ottla_core.scram import (
    ITERATIONS_DEFAULT,
    NOBODY,
    SALT_BYTES,
    BootstrapUser,
    credential_of,
    salted_password,
)

_KEY_BYTES: Final = 64

log = structlog.get_logger("controller")


class LoginController:
    """Decides about users and tokens for one term."""

    def __init__(self, changes: ChangeSequence, keys: KeySpace, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._changes = changes
        self._keys = keys

    async def alter_users(
        self,
        deletions: Sequence[ScramDeletion],
        upsertions: Sequence[ScramUpsertion],
        *,
        timeout_s: float | None = None,
    ) -> tuple[list[AlteredUser], int]:
        """Change users of SCRAM; return one result for each, and the revision that contains them."""

        async def change() -> tuple[list[AlteredUser], int]:
            nobody = {each: _random_credential() for each in ScramMechanism}
            plan = plan_alterations(deletions, upsertions, self._changes.state, nobody)
            writes = [self._user_write(named, credential) for named, credential in plan.credentials.items()]
            if writes:
                await self._changes.write(writes)
            for (mechanism, user), credential in plan.credentials.items():
                if user != NOBODY:
                    done = "user deleted" if credential is None else "password of user set"
                    log.info("users altered", done=done, user=user, mechanism=mechanism.sasl_name)
            return plan.results, self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def create_token(self, asked: NewToken, *, timeout_s: float | None = None) -> tuple[TokenTimes, int]:
        """Create a delegation token; return its times, and the revision that contains it.

        Raises:
            CodedError: there may be no such token.
        """

        async def change() -> tuple[TokenTimes, int]:
            token = created_token(asked, self._changes.state, self._clock.time_ms())
            if token.token_id not in self._changes.state.security.delegation_tokens:
                await self._changes.write([self._token_write(token.token_id, token)])
                log.info("delegation token created", token=token.token_id, owner=token.owner)
            return _times_of(token), self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def alter_token(self, asked: TokenLifetime, *, timeout_s: float | None = None) -> tuple[TokenTimes, int]:
        """Renew a delegation token, or have it end; return its times, and the revision that contains them.

        Raises:
            CodedError: the change is refused.
        """

        async def change() -> tuple[TokenTimes, int]:
            now_ms = self._clock.time_ms()
            token = altered_token(asked, self._changes.state, now_ms)
            await self._changes.write([self._token_write(asked.token_id, token)])
            if token is None:
                log.info("delegation token deleted", token=asked.token_id, by=asked.requester)
                return TokenTimes(issued_ms=0, expires_ms=now_ms, max_ms=0), self._changes.state.revision
            return _times_of(token), self._changes.state.revision

        return await self._changes.make(change, timeout_s=timeout_s)

    async def delete_ended_tokens(self) -> None:
        """Delete the delegation tokens that have expired.

        Raises:
            KafkaError: this controller no longer leads, or etcd fails.
        """
        if not any(ended_tokens(self._changes.state, self._clock.time_ms())):
            return

        async def change() -> None:
            ended = [*ended_tokens(self._changes.state, self._clock.time_ms())]
            await self._changes.write([self._token_write(each.token_id, None) for each in ended])
            log.info("delegation tokens that expired are deleted", tokens=len(ended))

        await self._changes.make(change)

    def _token_write(self, token_id: str, token: DelegationToken | None) -> Write:
        value = None if token is None else security_codec.encode_delegation_token(token)
        return Write(key=self._keys.delegation_token(token_id), value=value, replaces=None)

    async def create_first_users(self, users: Sequence[BootstrapUser]) -> None:
        """Create users if the cluster has none, all of them in one transaction.

        Raises:
            KafkaError: the change is refused, or this controller no longer leads.
        """
        known = self._changes.state.security.scram_credentials
        if known:
            if missing := [each.name for each in users if (each.mechanism, each.name) not in known]:
                # Deleted, or a release that wrote them one by one was cut short.
                log.warning("users of scram.bootstrap.users are missing, and others are there", users=missing)
            return
        credentials = {(each.mechanism, each.name): await asyncio.to_thread(_credential_of, each) for each in users}

        async def change() -> None:
            nobody = {each: _random_credential() for each in ScramMechanism}
            planned = plan_first_users(credentials, self._changes.state, nobody)
            await self._changes.write([self._user_write(named, each) for named, each in planned.items()])
            for mechanism, name in credentials if planned else ():
                log.info("users altered", done="first user created", user=name, mechanism=mechanism.sasl_name)

        await self._changes.make(change)

    def _user_write(self, named: Named, credential: ScramCredential | None) -> Write:
        value = None if credential is None else security_codec.encode_scram_credential(credential)
        return Write(key=self._keys.scram_credential(*named), value=value, replaces=None)


def _times_of(token: DelegationToken) -> TokenTimes:
    return TokenTimes(issued_ms=token.issued_ms, expires_ms=token.expires_ms, max_ms=token.max_lifetime_ms)


def _credential_of(user: BootstrapUser) -> ScramCredential:
    salt = token_bytes(SALT_BYTES)
    salted = salted_password(user.mechanism, user.password, salt, user.iterations)
    return credential_of(user.mechanism, salted, salt, user.iterations)


def _random_credential() -> ScramCredential:
    """Return a credential that fits no password."""
    return ScramCredential(
        salt=token_bytes(SALT_BYTES),
        stored_key=token_bytes(_KEY_BYTES),
        server_key=token_bytes(_KEY_BYTES),
        iterations=ITERATIONS_DEFAULT,
    )
