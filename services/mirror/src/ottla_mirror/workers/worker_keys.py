"""How mirror workers know what other workers have signed: each has a key pair for as long as it runs.

It says its public key when it joins a target's group, and the leader tells all keys to all. Whoever can only read the
group, by DescribeGroups, learns nothing to sign by; whoever can join it is a worker.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PARTS_SEPARATOR: Final = "."


class OwnKey:
    """This worker's key (Ed25519), and the others'.

    Attributes:
        public: the public key, in base64.
        others: returns the public keys of all workers, as the leaders have told them.
    """

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.public = b64encode(self._private.public_key().public_bytes_raw()).decode()
        self.others: Callable[[], Iterable[str]] = lambda: ()

    def sign(self, content: bytes) -> str:
        """Return this worker's signature, behind its public key: so one signature is checked by one key."""
        return f"{self.public}{PARTS_SEPARATOR}{b64encode(self._private.sign(content)).decode()}"

    def verify(self, content: bytes, signature: str, now_ms: int) -> bool:
        """Return whether a worker has signed this; its key lasts as long as it runs."""
        key, _, given = signature.partition(PARTS_SEPARATOR)
        if key != self.public and key not in set(self.others()):
            return False
        try:
            decoded = b64decode(key, validate=True), b64decode(given, validate=True)
            Ed25519PublicKey.from_public_bytes(decoded[0]).verify(decoded[1], content)
        except (InvalidSignature, NotBase64, ValueError):
            return False
        return True
