"""How `SecurityState` advances with the changes that etcd reports; see `state_tracker`. Pure."""

from dataclasses import replace
from uuid import UUID

from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.state import security_codec
from ottla_core.cluster.state.keys import AclKey, ClientQuotaKey, DelegationTokenKey, ScramCredentialKey, SecurityKey
from ottla_core.cluster.state.mappings import keep_identity, with_entry
from ottla_core.cluster.state.security import SecurityState


def with_change(draft: SecurityState, key: SecurityKey, entry: KeyValue | None) -> SecurityState:
    """Return the state with what stands under a key now; None if the key was deleted.

    Raises:
        BadValue: the value cannot be read.
    """
    match key:
        case AclKey(acl_id):
            binding = security_codec.decode_acl(key, entry.value) if entry else None
            draft = _without_substitutes(draft, acl_id)
            return replace(draft, acls=with_entry(draft.acls, acl_id, binding))
        case ScramCredentialKey(mechanism, user):
            credential = security_codec.decode_scram_credential(key, entry.value) if entry else None
            credentials = with_entry(draft.scram_credentials, (mechanism, user), credential)
            return replace(draft, scram_credentials=credentials)
        case DelegationTokenKey(token_id):
            token = security_codec.decode_delegation_token(key, entry.value) if entry else None
            return replace(draft, delegation_tokens=with_entry(draft.delegation_tokens, token_id, token))
        case ClientQuotaKey(entity):
            quotas = security_codec.decode_quotas(entry.value) if entry else None
            return replace(draft, client_quotas=with_entry(draft.client_quotas, entity, quotas))


def with_unreadable_acl(draft: SecurityState, key: AclKey, value: bytes) -> SecurityState:
    """Return the state with a binding whose value cannot be read, unless it has what the key held before."""
    if key.acl_id in draft.acls and key.acl_id not in draft.unreadable_acls:
        return draft
    draft = _without_substitutes(draft, key.acl_id)
    denials = security_codec.in_place_of_acl(key, value)
    unreadable = with_entry(draft.unreadable_acls, key.acl_id, frozenset(denials))
    return replace(draft, acls={**draft.acls, **denials}, unreadable_acls=unreadable)


def _without_substitutes(draft: SecurityState, acl_id: UUID) -> SecurityState:
    substitutes = draft.unreadable_acls.get(acl_id)
    if substitutes is None:
        return draft
    acls = {each: binding for each, binding in draft.acls.items() if each not in substitutes}
    return replace(draft, acls=acls, unreadable_acls=with_entry(draft.unreadable_acls, acl_id, None))


def with_former(draft: SecurityState, key: SecurityKey, former: SecurityState) -> SecurityState:
    """Return the state with what another one has under a key."""
    match key:
        case AclKey(acl_id):
            binding = None if acl_id in former.unreadable_acls else former.acls.get(acl_id)
            return replace(draft, acls=with_entry(draft.acls, acl_id, binding))
        case ScramCredentialKey(mechanism, user):
            named = (mechanism, user)
            credentials = with_entry(draft.scram_credentials, named, former.scram_credentials.get(named))
            return replace(draft, scram_credentials=credentials)
        case DelegationTokenKey(token_id):
            tokens = with_entry(draft.delegation_tokens, token_id, former.delegation_tokens.get(token_id))
            return replace(draft, delegation_tokens=tokens)
        case ClientQuotaKey(entity):
            quotas = with_entry(draft.client_quotas, entity, former.client_quotas.get(entity))
            return replace(draft, client_quotas=quotas)


def keep_identities(before: SecurityState, after: SecurityState) -> SecurityState:
    """Return `after`, with the objects of `before` where they are equal."""
    kept = SecurityState(
        acls=keep_identity(before.acls, after.acls),
        unreadable_acls=keep_identity(before.unreadable_acls, after.unreadable_acls),
        scram_credentials=keep_identity(before.scram_credentials, after.scram_credentials),
        delegation_tokens=keep_identity(before.delegation_tokens, after.delegation_tokens),
        client_quotas=keep_identity(before.client_quotas, after.client_quotas),
    )
    return before if kept == before else kept
