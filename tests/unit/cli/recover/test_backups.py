"""The files of backups."""

import json

import pytest

from ottla.recover.backups import NoState, decode_backup, encode_backup, state_of
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.model import Recovery
from ottla_core.cluster.state.recovery_facts import BadFacts

PREFIX = "/ottla/test/"


def put(key: str, value: bytes) -> KeyValue:
    return KeyValue(key=PREFIX + key, value=value, create_revision=1, mod_revision=3)


LISTED = [put("id", codec.encode_cluster_id("ours")), put("topics/ä", b"\xff{}"), put("members/broker/1", b"")]


def test_a_backup_has_all_that_lasts() -> None:
    state = state_of(LISTED, 9, "test", PREFIX)
    read, made = decode_backup(json.loads(encode_backup(state, 1_700_000_000_000)))
    assert read == state
    assert set(read.entries) == {"id", "topics/ä"}
    assert made == "2023-11-14T22:13:20+00:00"


def test_a_backup_that_was_changed_is_refused() -> None:
    document = json.loads(encode_backup(state_of(LISTED, 9, "test", PREFIX), 0))
    document["state"]["revision"] = 10
    with pytest.raises(BadFacts, match="checksum"):
        decode_backup(document)


def test_there_is_no_backup_of_nothing_or_of_half_a_recovery() -> None:
    with pytest.raises(NoState, match="no cluster of the name test"):
        state_of([], 9, "test", PREFIX)
    unfinished = put("recovery", codec.encode_recovery(Recovery(number=1, is_unfinished=True)))
    with pytest.raises(NoState, match="not finished"):
        state_of([*LISTED, unfinished], 9, "test", PREFIX)
