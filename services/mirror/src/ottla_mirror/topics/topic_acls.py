"""Which access control lists go along. Pure.

Bindings for single topics that are copied go to the topics' copies. As nobody but the mirror is to write there, what
allows writing stays behind, and what allows everything becomes a right to read. Nothing is ever deleted: a right that
is taken away at the source has to be taken away at the target.

Source: `MirrorSourceConnector.syncTopicAcls`, `shouldReplicateAcl` and `targetAclBinding` in Kafka 4.2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind


def missing_bindings(
    source: Iterable[AclBinding], target: Iterable[AclBinding], copies: Mapping[str, str]
) -> list[AclBinding]:
    """Return the bindings that the target lacks.

    Args:
        source: bindings of the source.
        target: bindings of the target.
        copies: names of the topics' copies, by the topics' names at the source.
    """
    there = set(target)
    wanted = (_at_target(binding, copies[binding.name]) for binding in source if _goes_along(binding, copies))
    return [binding for binding in dict.fromkeys(wanted) if binding not in there]


def _goes_along(binding: AclBinding, copies: Mapping[str, str]) -> bool:
    allows_writing = binding.permission is Permission.ALLOW and binding.operation is AclOperation.WRITE
    is_for_a_topic = binding.kind is ResourceKind.TOPIC and binding.pattern is PatternType.LITERAL
    return is_for_a_topic and binding.name in copies and not allows_writing


def _at_target(binding: AclBinding, remote_topic: str) -> AclBinding:
    allows_all = binding.permission is Permission.ALLOW and binding.operation is None
    return replace(binding, name=remote_topic, operation=AclOperation.READ if allows_all else binding.operation)
