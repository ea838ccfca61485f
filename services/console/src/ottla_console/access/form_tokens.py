"""Tokens in forms, which only pages of this console have for a session: a second lock beside the origin check."""

import hashlib
import hmac
import secrets


class FormTokens:
    """Makes and judges tokens by a key of this process; a form from before its start is refused."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def token_of(self, session_id: str | None) -> str:
        """Return the token of a session's forms."""
        return hmac.new(self._key, (session_id or "").encode(), hashlib.sha256).hexdigest()

    def is_valid(self, token: str, session_id: str | None) -> bool:
        """Return whether a token is the session's."""
        return hmac.compare_digest(token.encode(), self.token_of(session_id).encode())
