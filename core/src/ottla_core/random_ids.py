"""What is drawn by chance and has to be unique, or unknown to others: ids as Kafka draws them, and nonces.

Kafka never draws a UUID whose text would begin with ``-``, which command lines would take for an option, nor one of
the low values that it keeps for special purposes.
"""

import secrets
from typing import Final
from uuid import UUID, uuid4

from ottla_core.kafka_uuid import RESERVED_UUIDS_MAX, uuid_text

NONCE_BYTES: Final = 24


def random_uuid() -> UUID:
    """Return a fresh UUID that Kafka would accept as an id."""
    while True:
        drawn = uuid4()
        if drawn.int >= RESERVED_UUIDS_MAX and not uuid_text(drawn).startswith("-"):
            return drawn


def random_nonce() -> str:
    """Return what a client says once in a login by SCRAM, so that nobody can repeat the login (RFC 5802)."""
    return secrets.token_urlsafe(NONCE_BYTES)
