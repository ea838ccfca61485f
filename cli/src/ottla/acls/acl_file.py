"""Access control lists in a YAML file, and what has to change for a cluster to have them. Pure.

    principals:
      User:flights:
        - allow: [read, write]
          resources: [topic:flights-*, topic:weather]
        - allow: read
          resources: group:flights
        - deny: delete
          resources: topic:flights-archive
          host: 10.0.0.5

A file says everything about the principals that it names: bindings of theirs that it lacks are removed. Bindings of
other principals stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from ottla_core.acls import WILDCARD, AclBinding, Permission
from ottla_operations.acls.binding_words import binding_of, principal_of
from ottla_operations.errors import OperationError

PRINCIPALS: Final = "principals"
PERMISSIONS: Final = {"allow": Permission.ALLOW, "deny": Permission.DENY}
ENTRY_KEYS: Final = frozenset({*PERMISSIONS, "resources", "host"})


@dataclass(frozen=True, slots=True)
class AclFile:
    """What a file says.

    Attributes:
        principals: those of which it says everything.
        bindings: theirs.
    """

    principals: frozenset[str]
    bindings: frozenset[AclBinding]


@dataclass(frozen=True, slots=True)
class AclChanges:
    """What has to change."""

    added: frozenset[AclBinding]
    removed: frozenset[AclBinding]


def read_acl_file(text: str, name: str) -> AclFile:
    """Return what a file says.

    Args:
        text: its content.
        name: for messages.

    Raises:
        OperationError: it is no such file; the message says where.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OperationError(f"{name}: no YAML: {error}") from None
    if not isinstance(document, Mapping) or set(document) != {PRINCIPALS}:
        raise OperationError(f"{name}: it has to be a mapping with the one key {PRINCIPALS!r}")
    principals = document[PRINCIPALS] or {}
    if not isinstance(principals, Mapping):
        raise OperationError(f"{name}: {PRINCIPALS} is no mapping of principals to lists of rights")
    bindings: set[AclBinding] = set()
    for principal, entries in principals.items():
        if not isinstance(entries, list) and entries is not None:
            raise OperationError(f"{name}: {principal}: not a list of rights")
        for number, entry in enumerate(entries or (), start=1):
            bindings |= set(_bindings(str(principal), entry, f"{name}: {principal}, entry {number}"))
    return AclFile(frozenset(principal_of(str(each)) for each in principals), frozenset(bindings))


def changes_to(wanted: AclFile, present: Iterable[AclBinding]) -> AclChanges:
    """Return what has to change for a cluster with these bindings to have what a file says."""
    concerned = frozenset(each for each in present if each.principal in wanted.principals)
    return AclChanges(wanted.bindings - concerned, concerned - wanted.bindings)


def _bindings(principal: str, entry: Any, where: str) -> Iterator[AclBinding]:
    if not isinstance(entry, Mapping):
        raise OperationError(f"{where}: not a mapping with allow or deny, and resources")
    unknown = sorted(str(key) for key in entry if key not in ENTRY_KEYS)
    given = [key for key in PERMISSIONS if key in entry]
    if unknown or len(given) != 1 or "resources" not in entry:
        found = f"{', '.join(unknown)} is not known here; " if unknown else ""
        raise OperationError(f"{where}: {found}an entry has one of allow and deny, resources, and perhaps host")
    (permission,) = given
    for operation in _words(entry[permission], f"{where}: {permission}"):
        for resource in _words(entry["resources"], f"{where}: resources"):
            for host in _words(entry.get("host", WILDCARD), f"{where}: host"):
                try:
                    yield binding_of(resource, principal, operation, host=host, permission=PERMISSIONS[permission])
                except OperationError as error:
                    raise OperationError(f"{where}: {error}") from None


def _words(value: Any, where: str) -> list[str]:
    words = value if isinstance(value, list) else [value]
    if not words or not all(isinstance(each, str) and each for each in words):
        raise OperationError(f"{where}: not a word, nor a list of words")
    return words
