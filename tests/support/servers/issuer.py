"""Signs bearer tokens as an issuer does, and has a key set of what they are signed by."""

import json
import time
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

Key = RSAKey | ECKey | OKPKey


class Issuer:
    """An issuer with one key.

    Attributes:
        key: that signs.
        algorithm: by which it signs.
    """

    def __init__(self, key_id: str = "first", *, algorithm: str = "RS256") -> None:
        made: dict[str, Any] = {"parameters": {"kid": key_id}}
        self.algorithm = algorithm
        self.key: Key
        if algorithm.startswith("ES"):
            self.key = ECKey.generate_key("P-256", **made)
        elif algorithm.startswith("Ed"):
            self.key = OKPKey.generate_key("Ed25519", **made)
        else:
            self.key = RSAKey.generate_key(2048, **made)

    def key_set(self, *others: "Issuer") -> bytes:
        """The public keys of this issuer and of others."""
        keys = [each.key for each in (self, *others)]
        return json.dumps(KeySet([*keys]).as_dict(private=False)).encode()

    def token(self, subject: str = "ann", *, life_s: float = 300, key_id: str | None = None, **claims: object) -> str:
        """A token for a client; with an empty `key_id` it does not say by which key it is signed."""
        now = time.time()
        held = {"sub": subject, "iat": int(now), "exp": now + life_s, **claims}
        named = self.key.kid if key_id is None else key_id
        header = {"alg": self.algorithm, **({"kid": named} if named else {})}
        return jwt.encode(header, held, self.key, algorithms=[self.algorithm])
