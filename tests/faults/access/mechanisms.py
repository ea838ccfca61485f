"""By which mechanism each program of the load logs in: drawn by the seed, among those that its client can. Pure."""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final


class Mechanism(StrEnum):
    """A way to say who one is."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    PLAIN = "PLAIN"
    OAUTHBEARER = "OAUTHBEARER"
    """With a token that the campaign's key has signed."""
    TOKEN = "delegation token"
    """By SCRAM-SHA-512, with a token that the user has had made."""
    CERTIFICATE = "certificate"
    """On a listener with TLS and nothing else."""


SASL: Final = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512, Mechanism.PLAIN, Mechanism.OAUTHBEARER)
"""What brokers have to enable."""

LIBRDKAFKA: Final = (*SASL, Mechanism.CERTIFICATE)
OUR_OWN: Final = tuple(Mechanism)
JAVA: Final = tuple(each for each in Mechanism if each is not Mechanism.OAUTHBEARER)
"""Its tokens come from an address or a file that the virtual machine has to be told of."""
WORKER: Final = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512, Mechanism.PLAIN, Mechanism.CERTIFICATE)
"""Of workers and links: those that are told in settings, without an address that gives tokens."""


def drawn_mechanism(user: str, able: Sequence[Mechanism], seed: int) -> Mechanism:
    """The mechanism of a user."""
    return random.Random(f"mechanism of {user} of {seed}").choice(able)
