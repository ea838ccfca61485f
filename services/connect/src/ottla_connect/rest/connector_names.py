"""Which names a connector may be given (Kafka's ConnectorConfig and KIP-212). Pure."""

from ottla_core.rest.errors import BadRequest


def check_new_name(name: str) -> None:
    """Check the name of a connector that is to be made.

    Raises:
        BadRequest: it is empty, has whitespace around it or control characters in it.
    """
    if not name:
        raise BadRequest('Invalid name of a connector: it may not be empty; write it as "name"')
    if name != name.strip():
        raise BadRequest(f"Invalid name of a connector, {name!r}: it begins or ends with whitespace")
    if controls := sorted({ord(character) for character in name if not _is_plain(character)}):
        codes = ", ".join(f"U+{code:04X}" for code in controls)
        raise BadRequest(f"Invalid name of a connector, {name!r}: it has control characters ({codes})")


def settings_with_name(name: str, settings: dict[str, str]) -> dict[str, str]:
    """Return a connector's settings with its name among them.

    Raises:
        BadRequest: they have another name.
    """
    included = settings.get("name")
    if included is not None and included != name:
        raise BadRequest(f"The settings name the connector {included}, but the URL names {name}")
    return {**settings, "name": name}


def _is_plain(character: str) -> bool:
    return ord(character) >= 0x20 and not 0x7F <= ord(character) <= 0x9F
