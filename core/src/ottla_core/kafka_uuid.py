"""UUIDs the way Kafka prints them: topic ids, directory ids and cluster ids. Pure.

Kafka prints the 16 bytes in URL-safe base64 without padding, 22 characters. `random_ids.py` draws them.
"""

import base64
from uuid import UUID

RESERVED_UUIDS_MAX = 100
"""Kafka's DirectoryId reserves the UUIDs whose number is below this; the zero UUID means "none" everywhere."""

ZERO_UUID = UUID(int=0)


def uuid_text(uuid: UUID) -> str:
    """Return Kafka's 22-character form."""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def parse_uuid_text(text: str) -> UUID:
    """Return the UUID of Kafka's 22-character form.

    Raises:
        ValueError: the text is no such form.
    """
    try:
        parsed = UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError:
        parsed = ZERO_UUID
    # The decoder skips characters that do not belong; what it made of the text must give the text again.
    if uuid_text(parsed) != text:
        raise ValueError(f"not a UUID in Kafka's base64 form: {text!r}")
    return parsed
