"""Sentences that the next page shows once, such as that a topic was created; only this console writes them."""

import secrets
from collections import OrderedDict
from typing import Final

NOTICES_MAX: Final = 1000


class Notices:
    """Sentences by ids that nobody can guess; the oldest make way."""

    def __init__(self) -> None:
        self._notices: OrderedDict[str, str] = OrderedDict()

    def put(self, sentence: str) -> str:
        """Keep a sentence, and return its id for the next page's address."""
        notice_id = secrets.token_urlsafe(16)
        self._notices[notice_id] = sentence
        if len(self._notices) > NOTICES_MAX:
            self._notices.popitem(last=False)
        return notice_id

    def take(self, notice_id: str | None) -> str | None:
        """Return a sentence, for the only time."""
        return None if notice_id is None else self._notices.pop(notice_id, None)
