"""Ids and nonces that are drawn."""

from ottla_core.kafka_uuid import parse_uuid_text, uuid_text
from ottla_core.random_ids import random_nonce, random_uuid


def test_a_fresh_uuid_comes_back_from_its_text() -> None:
    for _ in range(200):
        drawn = random_uuid()
        text = uuid_text(drawn)
        assert len(text) == 22
        assert not text.startswith("-")
        assert parse_uuid_text(text) == drawn


def test_no_two_nonces_are_the_same():
    assert len({random_nonce() for _ in range(1000)}) == 1000
