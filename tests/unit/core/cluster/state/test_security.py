"""What the cluster's state says of security: keys, values, and how the state follows them."""

from collections.abc import Callable
from uuid import UUID

import pytest

from ottla_core.acls import WILDCARD, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.etcd.key_value import KeyDeletion, KeyValue
from ottla_core.cluster.state import security_codec
from ottla_core.cluster.state.json_fields import BadValue, UnknownFormat
from ottla_core.cluster.state.keys import (
    AclKey,
    ClientQuotaKey,
    DelegationTokenKey,
    Key,
    KeySpace,
    ScramCredentialKey,
)
from ottla_core.cluster.state.security import (
    DelegationToken,
    QuotaEntity,
    QuotaEntityKind,
    ScramCredential,
    ScramMechanism,
    SecurityState,
)
from ottla_core.cluster.state.state_tracker import StateTracker

KEYS = KeySpace("c")
ACL_ID = UUID(int=5)
BINDING = AclBinding(
    kind=ResourceKind.TOPIC,
    pattern=PatternType.PREFIXED,
    name="flights-",
    principal="User:ada",
    host=WILDCARD,
    operation=AclOperation.READ,
    permission=Permission.ALLOW,
)
CREDENTIAL = ScramCredential(salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096)
TOKEN = DelegationToken(
    token_id="t/1",
    owner="User:ada",
    requester="User:admin",
    renewers=("User:eve",),
    issued_ms=1,
    expires_ms=2,
    max_lifetime_ms=3,
)
ADAS_DEFAULT = QuotaEntity(((QuotaEntityKind.USER, "ada/1&2=3"), (QuotaEntityKind.CLIENT_ID, None)))
QUOTAS = {"producer_byte_rate": 1024.5, "request_percentage": 50.0}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (KEYS.acl(ACL_ID), AclKey(ACL_ID)),
        (KEYS.scram_credential(ScramMechanism.SHA_512, "a/b c"), ScramCredentialKey(ScramMechanism.SHA_512, "a/b c")),
        (KEYS.delegation_token("t/1"), DelegationTokenKey("t/1")),
        (KEYS.client_quota(ADAS_DEFAULT), ClientQuotaKey(ADAS_DEFAULT)),
        (
            KEYS.client_quota(QuotaEntity(((QuotaEntityKind.CLIENT_ID, ""),))),
            ClientQuotaKey(QuotaEntity(((QuotaEntityKind.CLIENT_ID, ""),))),
        ),
    ],
)
def test_keys_are_read_back(text: str, key: Key) -> None:
    assert KEYS.parse(text) == key


@pytest.mark.parametrize(
    "text", ["acls/x", "scram-credentials/MD5/ada", "client-quotas/planet=earth", "client-quotas/"]
)
def test_keys_of_nothing_known_are_skipped(text: str) -> None:
    assert KEYS.parse(KEYS.prefix + text) is None


def test_values_are_read_back() -> None:
    assert security_codec.decode_acl(AclKey(ACL_ID), security_codec.encode_acl(BINDING)) == BINDING
    scram_key = ScramCredentialKey(ScramMechanism.SHA_256, "ada")
    encoded = security_codec.encode_scram_credential(CREDENTIAL)
    assert security_codec.decode_scram_credential(scram_key, encoded) == CREDENTIAL
    encoded = security_codec.encode_delegation_token(TOKEN)
    assert security_codec.decode_delegation_token(DelegationTokenKey("t/1"), encoded) == TOKEN
    assert security_codec.decode_quotas(security_codec.encode_quotas(QUOTAS)) == QUOTAS


DECODERS: dict[str, Callable[[bytes], object]] = {
    "acl": lambda value: security_codec.decode_acl(AclKey(ACL_ID), value),
    "delegation_token": lambda value: security_codec.decode_delegation_token(DelegationTokenKey("t"), value),
    "quotas": security_codec.decode_quotas,
    "scram_credential": lambda value: security_codec.decode_scram_credential(
        ScramCredentialKey(ScramMechanism.SHA_256, "ada"), value
    ),
}


def test_every_kind_of_value_is_tried() -> None:
    known = {name.removeprefix("decode_") for name in dir(security_codec) if name.startswith("decode_")}
    assert known == DECODERS.keys()


@pytest.mark.parametrize("kind", DECODERS)
def test_a_value_of_a_later_format_is_refused_as_such(kind: str) -> None:
    with pytest.raises(UnknownFormat, match="format 2"):
        DECODERS[kind](b'{"format":2,"all":"is different"}')


@pytest.mark.parametrize(
    ("kind", "value", "named"),
    [
        ("acl", security_codec.encode_acl(BINDING).replace(b'"kind":2', b'"kind":99'), "kind.*99"),
        ("acl", security_codec.encode_acl(BINDING).replace(b'"operation":3', b'"operation":1'), "operation"),
        (
            "scram_credential",
            b'{"salt":"!","stored_key":"","server_key":"","iterations":1}',
            "not readable as a credential",
        ),
        ("quotas", b'{"quotas":{"producer_byte_rate":"1"}}', "producer_byte_rate"),
    ],
)
def test_a_bad_value_is_refused_by_name(kind: str, value: bytes, named: str) -> None:
    with pytest.raises(BadValue, match=named):
        DECODERS[kind](value)


@pytest.mark.parametrize(
    "value", [b'["SECRET"]', b"SECRET", b'{"salt":"SECRET!","stored_key":"","server_key":"","iterations":1}',
              b'{"salt":"","stored_key":["SECRET"],"server_key":"","iterations":1}']
)  # fmt: skip
def test_what_a_bad_credential_holds_is_in_no_message(value: bytes) -> None:
    with pytest.raises(BadValue) as refused:
        DECODERS["scram_credential"](value)
    assert "SECRET" not in str(refused.value)


def entry(key: str, value: bytes, revision: int = 7) -> KeyValue:
    return KeyValue(key=key, value=value, create_revision=revision, mod_revision=revision)


ENTRIES = (
    entry(KEYS.acl(ACL_ID), security_codec.encode_acl(BINDING)),
    entry(KEYS.scram_credential(ScramMechanism.SHA_256, "ada"), security_codec.encode_scram_credential(CREDENTIAL)),
    entry(KEYS.delegation_token("t/1"), security_codec.encode_delegation_token(TOKEN)),
    entry(KEYS.client_quota(ADAS_DEFAULT), security_codec.encode_quotas(QUOTAS)),
)
ALL = SecurityState(
    acls={ACL_ID: BINDING},
    scram_credentials={(ScramMechanism.SHA_256, "ada"): CREDENTIAL},
    delegation_tokens={"t/1": TOKEN},
    client_quotas={ADAS_DEFAULT: QUOTAS},
)


def test_the_state_follows_the_keys_and_what_is_equal_stays_itself() -> None:
    tracker = StateTracker(KEYS)
    assert tracker.advance(ENTRIES, 7) == []
    assert tracker.state.security == ALL
    before = tracker.state.security
    assert tracker.reload(ENTRIES, 8) == []
    assert tracker.state.security is before

    tracker.advance([KeyDeletion(key=each.key, mod_revision=9) for each in ENTRIES], 9)
    assert tracker.state.security.is_empty


def test_a_value_that_cannot_be_read_leaves_what_was_known() -> None:
    tracker = StateTracker(KEYS)
    tracker.advance(ENTRIES, 7)
    damaged = [entry(each.key, b"[]", 8) for each in ENTRIES]
    assert len(tracker.advance(damaged, 8)) == 4
    assert tracker.state.security == ALL
    assert len(tracker.reload(damaged, 9)) == 4
    assert tracker.state.security == ALL
