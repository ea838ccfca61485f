"""UUIDs in Kafka's text form."""

from uuid import UUID

import pytest

from ottla_core.kafka_uuid import parse_uuid_text, uuid_text


def test_the_text_form_is_kafkas() -> None:
    # Kafka's Uuid.ONE_UUID and a value whose base64 needs both URL-safe characters.
    assert uuid_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(UUID("fbefbefb-ffff-ffff-ffff-ffffffffffff")) == "-----________________w"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "!" * 22, "AAAAAAAAAAAAAAAAAAAAA+"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a UUID"):
        parse_uuid_text(text)
