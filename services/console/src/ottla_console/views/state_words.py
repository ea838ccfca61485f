"""What stands in etcd of a cluster, in words; secrets are told as such, and never shown. Pure.

Only what is known to be no secret is shown: of settings of brokers and of links the names alone, of passwords and
tokens what they are for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla_core.acls import AclBinding
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.state import codec, keys, security_codec
from ottla_core.cluster.state.json_fields import BadValue
from ottla_core.cluster.state.model import NO_LEADER
from ottla_core.errors import OttlaError
from ottla_operations.cluster.cluster_view import describe_replicas

TEXT_MAX: Final = 1000
SECTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "cluster": ("The cluster", ""),
    "members": ("Processes that live", "members/"),
    "registrations": ("Brokers that are remembered", "registrations/"),
    "topics": ("Topics", "topics/"),
    "partitions": ("Partitions", "partitions/"),
    "configs": ("Settings", "configs/"),
    "acls": ("Access control lists", "acls/"),
    "scram-credentials": ("Users with passwords", "scram-credentials/"),
    "delegation-tokens": ("Delegation tokens", "delegation-tokens/"),
    "client-quotas": ("Quotas", "client-quotas/"),
    "links": ("Links", "links/"),
    "shards": ("Partitions of coordinators", "shards/"),
}
"""Parts of the key space: title, and what their keys begin with below the cluster's; empty for single keys."""
SINGLE_KEYS: Final = ("id", "controller", "features", "producer-ids", "recovery")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """A key.

    Attributes:
        subject: what it is about.
        words: what its value says.
        revision: of its last change.
    """

    key: str
    subject: str
    words: str
    revision: int


def state_rows(space: keys.KeySpace, entries: Iterable[KeyValue], topics: Mapping[UUID, str]) -> list[StateRow]:
    """Return keys in words.

    Args:
        space: of the cluster.
        entries: keys with their values; those of other clusters are left out.
        topics: names by id, as far as they are known.
    """
    rows = []
    for each in entries:
        if not each.key.startswith(space.prefix):
            continue
        key = space.parse(each.key)
        try:
            subject, words = _told(key, each, topics)
        except (BadValue, OttlaError):
            subject, words = "", "its value cannot be read by this release"
        rows.append(
            StateRow(
                key=each.key.removeprefix(space.prefix)[:TEXT_MAX],
                subject=subject[:TEXT_MAX],
                words=words if len(words) <= TEXT_MAX else f"{words[:TEXT_MAX]}…",
                revision=each.mod_revision,
            )
        )
    return rows


def with_words(rows: Iterable[StateRow], words: str) -> list[StateRow]:
    """Return the rows that have all words, whatever their case."""
    wanted = words.lower().split()
    return [row for row in rows if all(word in f"{row.key} {row.subject} {row.words}".lower() for word in wanted)]


def topic_names(space: keys.KeySpace, entries: Iterable[KeyValue]) -> dict[UUID, str]:
    """Return the names of topics by their ids; what cannot be read is left out."""
    found = {}
    for each in entries:
        key = space.parse(each.key)
        if isinstance(key, keys.TopicKey):
            try:
                found[codec.decode_topic(key.name, each.value).id] = key.name
            except OttlaError:
                continue
    return found


def _told(key: keys.Key | None, entry: KeyValue, topics: Mapping[UUID, str]) -> tuple[str, str]:
    value, revision = entry.value, entry.mod_revision
    match key:
        case keys.ClusterIdKey():
            return "Cluster id", codec.decode_cluster_id(value)
        case keys.ControllerKey():
            leader = codec.decode_controller(value, entry.create_revision)
            return "Leading controller", f"controller {leader.id} at {leader.rpc_address}, epoch {leader.epoch}"
        case keys.FeaturesKey():
            levels = codec.decode_features(value, revision).levels
            return "Features", ", ".join(f"{name} at level {level}" for name, level in sorted(levels.items()))
        case keys.ProducerIdsKey():
            return "Producer ids", f"{codec.decode_next_producer_id(value)} is the next"
        case keys.RecoveryKey():
            recovery = codec.decode_recovery(value)
            return "Recovery", f"the state was recovered {recovery.number} times" + (
                ", the last time not to the end" if recovery.is_unfinished else ""
            )
        case keys.MemberKey() | keys.RegistrationKey():
            return _process(key, entry)
        case keys.TopicKey():
            topic = codec.decode_topic(key.name, value)
            return f"Topic {key.name}", f"{topic.partition_count} partitions, id {topic.id}{_settings(topic.configs)}"
        case keys.PartitionKey():
            return _partition(key, entry, topics)
        case keys.ShardKey():
            shard = codec.decode_shard(key, value, revision)
            owner = "nobody" if shard.coordinator < 0 else f"coordinator {shard.coordinator}"
            return f"{key.topic} partition {key.index}", f"{owner}, as producer {shard.producer_id}"
        case keys.LinkKey():
            link = codec.decode_link(key, value, revision)
            return f"Link {key.name}", (
                f"follows {', '.join(link.bootstrap_servers)}{', paused' if link.paused else ''}; topics "
                f"{', '.join(link.topics)}{_names(link.settings)}"
            )
        case _:
            return _settings_or_security(key, entry)


def _settings_or_security(key: keys.Key | None, entry: KeyValue) -> tuple[str, str]:
    value = entry.value
    match key:
        case keys.BrokerConfigKey():
            subject = "All brokers" if key.broker_id is None else f"Broker {key.broker_id}"
            return subject, f"settings{_names(codec.decode_config(value))}"
        case keys.GroupConfigKey():
            return f"Group {key.group_id}", f"settings{_settings(codec.decode_config(value))}"
        case keys.ClientMetricsConfigKey():
            return f"Client metrics {key.name}", f"settings{_settings(codec.decode_config(value))}"
        case keys.AclKey():
            return _binding(security_codec.decode_acl(key, value))
        case keys.ScramCredentialKey():
            iterations = security_codec.decode_scram_credential(key, value).iterations
            return f"User {key.user}", f"a password for {key.mechanism.sasl_name}, {iterations:,} iterations"
        case keys.DelegationTokenKey():
            return f"Owner {security_codec.decode_delegation_token(key, value).owner}", "a delegation token"
        case keys.ClientQuotaKey():
            who = ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in key.entity.names)
            quotas = security_codec.decode_quotas(value)
            return who, ", ".join(f"{name} = {quota:g}" for name, quota in sorted(quotas.items()))
        case _:
            return "", "of a kind that this release does not know"


def _process(key: keys.MemberKey | keys.RegistrationKey, entry: KeyValue) -> tuple[str, str]:
    if isinstance(key, keys.RegistrationKey):
        known = codec.decode_registration(key, entry.value, entry.mod_revision)
        return f"Broker {key.broker_id}", (
            f"{len(known.directory_ids)} log directories, rack {known.rack or 'none'}, epoch {known.broker_epoch}"
        )
    member = codec.decode_member(key, entry.value, entry.create_revision)
    at = ", ".join(f"{each.host}:{each.port}" for each in member.endpoints) or member.rpc_address
    ending = ", shutting down" if member.shutting_down else ""
    return f"{str(key.role).capitalize()} {key.id}", f"release {member.version} at {at}{ending}"


def _partition(key: keys.PartitionKey, entry: KeyValue, topics: Mapping[UUID, str]) -> tuple[str, str]:
    found = codec.decode_partition(key, entry.value, entry.mod_revision)
    leader = "nobody leads" if found.leader == NO_LEADER else f"broker {found.leader} leads"
    moving = f", comes to {describe_replicas(found.adding)}" if found.adding else ""
    moving += f", leaves {describe_replicas(found.removing)}" if found.removing else ""
    return f"{topics.get(key.topic_id, f'topic {key.topic_id}')} partition {key.index}", (
        f"{leader}, leader epoch {found.leader_epoch}; replicas {describe_replicas(found.replicas)}, "
        f"in sync {describe_replicas(found.isr)}{moving}"
    )


def _binding(binding: AclBinding) -> tuple[str, str]:
    operation = "everything" if binding.operation is None else binding.operation.name.lower()
    kind = binding.kind.name.lower()
    return str(binding.principal), (
        f"{binding.permission.name.lower()} {operation} on {kind} {binding.name} "
        f"({binding.pattern.name.lower()}) from host {binding.host}"
    )


def _settings(configs: Mapping[str, str]) -> str:
    return "".join(f"; {name} = {value}" for name, value in sorted(configs.items()))


def _names(configs: Mapping[str, str]) -> str:
    return f"; set are {', '.join(sorted(configs))} (values are not shown)" if configs else ""
