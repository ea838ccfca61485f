"""Who must never be let in, whatever happens to a cluster: tokens, passwords and certificates that are no good.

Each of them differs from a login that is good in one thing only, so that it is this thing that keeps it out.
"""

import base64
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from ottla.secure.authority import new_authority
from tests.faults.access.client_access import ClientAccess, LoginRefused
from tests.faults.access.mechanisms import Mechanism
from tests.faults.access.secured_clients import IMPOSTOR, YEAR_S, SecuredClients
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clients.raw_requests import metadata_request
from tests.support.servers.issuer import Issuer

SOMEBODY: Final = "admin"
"""Whom brokers would know nothing against."""
ENDED_AGO_S: Final = YEAR_S / 2
"""Longer than any clock of a trial is wrong."""
AT_ONCE: Final = i64Timedelta.parse(timedelta(milliseconds=-1))
AUTHORITY_HOLDS: Final = timedelta(days=400)
ANSWER_WITHIN_S: Final = 5.0


class Attempt(NamedTuple):
    """A login that must fail.

    Attributes:
        access: by which.
        addresses: where it is tried, by the broker's id.
    """

    access: ClientAccess
    addresses: Mapping[int, str]


def impostors(clients: SecuredClients, ended_token: ClientAccess) -> dict[str, Attempt]:
    """All of them, by what is wrong with them.

    Args:
        clients: of the cluster.
        ended_token: the login by a delegation token that was made and has been ended.
    """
    issuer, foreign = clients.issuer, Issuer()  # both call their key by the same name
    authority = new_authority("foreign", datetime.now(UTC) - AUTHORITY_HOLDS / 2, AUTHORITY_HOLDS)
    certificate = ClientAccess(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": str(clients.certificates.authority),
            **clients.certificates.client_files(SOMEBODY, authority),
        }
    )
    by_password = clients.addresses_of(IMPOSTOR)
    by_certificate = clients.certificate_addresses
    return {
        "a token that a foreign key has signed": Attempt(
            clients.bearer(clients.token_of(foreign, SOMEBODY)), by_password
        ),
        "a token that has expired": Attempt(
            clients.bearer(clients.token_of(issuer, SOMEBODY, life_s=-ENDED_AGO_S)), by_password
        ),
        "a token for another audience": Attempt(
            clients.bearer(issuer.token(SOMEBODY, life_s=YEAR_S, iat=int(time.time()) - YEAR_S, aud="others")),
            by_password,
        ),
        "a wrong password by PLAIN": Attempt(clients.by_password("nobody", Mechanism.PLAIN, "wrong"), by_password),
        "a wrong password by SCRAM": Attempt(
            clients.by_password(IMPOSTOR, Mechanism.SCRAM_SHA_512, "wrong"), by_password
        ),
        "a password for the other SCRAM": Attempt(
            clients.by_password(IMPOSTOR, Mechanism.SCRAM_SHA_256), by_password
        ),
        "a delegation token that was ended": Attempt(ended_token, by_password),
        "a certificate of a foreign authority": Attempt(certificate, by_certificate),
    }


def is_let_in(access: ClientAccess, address: str, *, within_s: float = ANSWER_WITHIN_S) -> bool:
    """Whether a broker answers requests of somebody who logs in so; it may not answer for other reasons."""
    try:
        client = access.connect(address, within_s=within_s)
    except (OSError, Silence, LoginRefused):
        return False
    try:
        client.ask(metadata_request([]))  # in TLS 1.3 a client learns only by this that its certificate is refused
    except (OSError, Silence):
        return False
    finally:
        client.close()
    return True


def new_token(owner: RawClient, *, ended: bool = False) -> tuple[str, str]:
    """Has a delegation token made, and ended if it is to be; returns its id and its secret.

    Raises:
        ConnectionError: the broker refuses it.
    """
    asked = CreateDelegationTokenRequest(
        owner_principal_type=None,
        owner_principal_name=None,
        renewers=(),
        max_lifetime=i64Timedelta.parse(timedelta(milliseconds=-1)),
    )
    made = owner.ask(asked)
    _check(made.error_code)
    if ended:
        _check(owner.ask(ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period=AT_ONCE)).error_code)
    return made.token_id, base64.b64encode(made.hmac).decode()


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise ConnectionError(code.name)
