"""A session is read as it was stored, with every field."""

from uuid import UUID

import pytest

from ottla_mirror.offsets.map_records import decode_session, encode_session
from ottla_mirror.offsets.stored_copy import Session, SessionName


@pytest.mark.parametrize("owner", [None, UUID(int=9)])
@pytest.mark.parametrize("replaces", [None, SessionName(7, 2)])
def test_a_session_is_read_as_it_was_stored(owner: UUID | None, replaces: SessionName | None):
    session = Session(
        producer_id=7,
        producer_epoch=3,
        source_topic_id=UUID(int=1),
        source_start_offset=11,
        target_topic_id=UUID(int=2),
        target_start_offset=12,
        replaces=replaces,
        owner=owner,
    )
    assert decode_session(session.name, encode_session(session)) == session
