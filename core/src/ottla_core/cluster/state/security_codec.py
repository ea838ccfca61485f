"""The values in etcd of what is about security, as JSON objects; see `codec`. Pure."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar
from uuid import UUID, uuid5

from ottla_core.acls import (
    ALL_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceKind,
)
from ottla_core.cluster.state.json_fields import BadValue, JsonFields, UnknownFormat, json_bytes
from ottla_core.cluster.state.keys import AclKey, DelegationTokenKey, ScramCredentialKey
from ottla_core.cluster.state.security import DelegationToken, ScramCredential
from ottla_core.principal import USER, Principal

Number = TypeVar("Number", bound=IntEnum)


def encode_acl(binding: AclBinding) -> bytes:
    """Return the value of a binding's key."""
    return json_bytes(
        {
            "kind": binding.kind,
            "pattern": binding.pattern,
            "name": binding.name,
            "principal": binding.principal,
            "host": binding.host,
            "operation": ALL_OPERATIONS if binding.operation is None else binding.operation,
            "permission": binding.permission,
        }
    )


def decode_acl(key: AclKey, value: bytes) -> AclBinding:
    """Return the binding under `key`.

    Raises:
        BadValue: the value is malformed.
    """
    fields = JsonFields(str(key), value)
    operation = fields.integer("operation")
    return AclBinding(
        kind=_number(key, "kind", fields, ResourceKind),
        pattern=_number(key, "pattern", fields, PatternType),
        name=fields.text("name"),
        principal=fields.text("principal"),
        host=fields.text("host"),
        operation=None if operation == ALL_OPERATIONS else _number(key, "operation", fields, AclOperation),
        permission=_number(key, "permission", fields, Permission),
    )


def in_place_of_acl(key: AclKey, value: bytes) -> Mapping[UUID, AclBinding]:
    """Return what holds while the value of a binding cannot be read: everybody is denied what it may be about.

    It may have denied something, which passing it over would allow. Where the value still says which resources it is
    for, it is they; otherwise all resources. The binding of the key's own id is always among these, so that whoever
    deletes it deletes what cannot be read.
    """
    try:
        fields = JsonFields(str(key), value)
        kind, pattern = _number(key, "kind", fields, ResourceKind), _number(key, "pattern", fields, PatternType)
        return {key.acl_id: _denial(kind, pattern, fields.text("name"))}
    except BadValue:
        kinds = list(ResourceKind)
        ids = [key.acl_id, *(uuid5(key.acl_id, kind.name) for kind in kinds[1:])]
        return {acl_id: _denial(kind, PatternType.LITERAL, WILDCARD) for acl_id, kind in zip(ids, kinds, strict=True)}


def _denial(kind: ResourceKind, pattern: PatternType, name: str) -> AclBinding:
    return AclBinding(
        kind=kind,
        pattern=pattern,
        name=name,
        principal=str(Principal(USER, WILDCARD)),
        host=WILDCARD,
        operation=None,
        permission=Permission.DENY,
    )


def encode_scram_credential(credential: ScramCredential) -> bytes:
    """Return the value of a credential's key."""
    return json_bytes(
        {
            "salt": b64encode(credential.salt).decode(),
            "stored_key": b64encode(credential.stored_key).decode(),
            "server_key": b64encode(credential.server_key).decode(),
            "iterations": credential.iterations,
        }
    )


def decode_scram_credential(key: ScramCredentialKey, value: bytes) -> ScramCredential:
    """Return the credential under `key`.

    Raises:
        BadValue: the value is malformed; the message holds nothing of it.
    """
    try:
        fields = JsonFields(str(key), value)
        return ScramCredential(
            salt=b64decode(fields.text("salt"), validate=True),
            stored_key=b64decode(fields.text("stored_key"), validate=True),
            server_key=b64decode(fields.text("server_key"), validate=True),
            iterations=fields.integer("iterations"),
        )
    except UnknownFormat:
        raise
    except (BadValue, binascii.Error):  # their messages quote the value
        raise BadValue(f"{key}: not readable as a credential") from None


def encode_delegation_token(token: DelegationToken) -> bytes:
    """Return the value of a token's key."""
    return json_bytes(
        {
            "owner": token.owner,
            "requester": token.requester,
            "renewers": token.renewers,
            "issued_ms": token.issued_ms,
            "expires_ms": token.expires_ms,
            "max_lifetime_ms": token.max_lifetime_ms,
        }
    )


def decode_delegation_token(key: DelegationTokenKey, value: bytes) -> DelegationToken:
    """Return the token under `key`.

    Raises:
        BadValue: the value is malformed.
    """
    fields = JsonFields(str(key), value)
    return DelegationToken(
        token_id=key.token_id,
        owner=fields.text("owner"),
        requester=fields.text("requester"),
        renewers=fields.list_of_texts("renewers"),
        issued_ms=fields.integer("issued_ms"),
        expires_ms=fields.integer("expires_ms"),
        max_lifetime_ms=fields.integer("max_lifetime_ms"),
    )


def encode_quotas(quotas: Mapping[str, float]) -> bytes:
    """Return the value of an entity's quotas."""
    return json_bytes({"quotas": dict(quotas)})


def decode_quotas(value: bytes) -> Mapping[str, float]:
    """Return an entity's quotas by name.

    Raises:
        BadValue: the value holds none.
    """
    return JsonFields("client quotas", value).numbers_by_name("quotas")


def _number(key: AclKey, name: str, fields: JsonFields, kind: type[Number]) -> Number:
    found = fields.integer(name)
    try:
        return kind(found)
    except ValueError:
        raise BadValue(f"{key}.{name}: no {kind.__name__} has the number {found}") from None
