"""`ottla acl`: what users may do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.confirmation import Yes, ask_at_terminal, ask_or_refuse
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla_core.acls import AclBinding

Who = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="A user's name, TYPE:NAME, or '*' for everybody.")]
Operations = Annotated[
    str,
    typer.Argument(metavar="OPERATIONS", help="Such as read,write or all, separated by commas."),
]
Resources = Annotated[
    list[str],
    typer.Argument(metavar="RESOURCE...", help="topic:NAME, group:PREFIX*, transactional-id:*, cluster and so on."),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", help="Only from this address; may be repeated.", show_default="every address"),
]
Deny = Annotated[bool, typer.Option("--deny", help="Deny it, which decides before whatever allows it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def list_(
    *,
    principals: Annotated[
        list[str] | None, typer.Option("--principal", help="Of this principal only; may be repeated.")
    ] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", help="That are for this resource, also by prefixes and wildcards.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """List access control lists.

    [bold]Examples[/bold]

      ottla acl list

      ottla acl list --principal flights --resource topic:flights-2013
    """
    from ottla_core.acl_filters import AclFilter, PatternFilter  # noqa: PLC0415
    from ottla_operations.acls.binding_words import document_of, principal_of, resource_of, sorted_bindings  # noqa: PLC0415
    from ottla_operations.acls.cluster_acls import all_bindings  # noqa: PLC0415

    wanted = AclFilter()
    if resource is not None:
        kind, _, name = resource_of(resource)
        wanted = AclFilter(kind=kind, pattern=PatternFilter.MATCH, name=name)
    named = {principal_of(each) for each in principals or ()}
    with cluster_admin(bootstrap, properties) as admin:
        found = [
            each
            for each in sorted_bindings(all_bindings(admin))
            if wanted.finds(each) and (not named or each.principal in named)
        ]
    documents = [document_of(each) for each in found]
    if as_json:
        print_json({"acls": documents})
        return
    columns = ("resource", "principal", "operation", "permission", "host")
    print_table(columns, [tuple(each[column] for column in columns) for each in documents])


def add(
    *,
    principal: Who,
    operations: Operations,
    resources: Resources,
    hosts: Hosts = None,
    deny: Deny = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Allow a user something, or deny it.

    [bold]Examples[/bold]

      ottla acl add flights read,write 'topic:flights-*'

      ottla acl add flights read group:flights

      ottla acl add '*' all topic:payroll --deny --host 10.0.0.5
    """
    from ottla_operations.acls.cluster_acls import create  # noqa: PLC0415

    bindings = _bindings(principal, operations, resources, hosts, deny=deny)
    with cluster_admin(bootstrap, properties) as admin:
        create(admin, bindings)
    _report("added", bindings, as_json=as_json)


def remove(
    *,
    principal: Who,
    operations: Operations,
    resources: Resources,
    hosts: Hosts = None,
    deny: Deny = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Take back what was allowed, or with --deny what was denied.

    Exactly what is named goes: a right on topic:flights stays when topic:* is removed.

    [bold]Examples[/bold]

      ottla acl remove flights write 'topic:flights-*' --yes
    """
    from ottla_operations.acls.binding_words import sorted_bindings  # noqa: PLC0415
    from ottla_operations.acls.cluster_acls import delete  # noqa: PLC0415

    bindings = _bindings(principal, operations, resources, hosts, deny=deny)
    with cluster_admin(bootstrap, properties) as admin:
        ask_at_terminal(f"Remove {len(bindings)} access control lists?", yes=yes)
        removed = delete(admin, bindings)
    if len(removed) < len(bindings):
        note(f"{len(bindings) - len(removed)} of {len(bindings)} were not there")
    _report("removed", sorted_bindings(removed), as_json=as_json)


def apply(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file; - is the standard input.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Give principals the rights that a file says, and no others.

    The file says everything about the principals that it names; rights of theirs that it lacks are removed. What is
    to change is shown first.

    [bold]Examples[/bold]

      ottla acl apply rights.yaml --dry-run

      ottla acl apply rights.yaml --yes
    """
    from ottla.acls.acl_file import changes_to, read_acl_file  # noqa: PLC0415
    from ottla_operations.acls.binding_words import document_of, sorted_bindings  # noqa: PLC0415
    from ottla_operations.acls.cluster_acls import all_bindings, create, delete  # noqa: PLC0415

    wanted = read_acl_file(_text_of(file), str(file))
    with cluster_admin(bootstrap, properties) as admin:
        changes = changes_to(wanted, all_bindings(admin))
        added, removed = sorted_bindings(changes.added), sorted_bindings(changes.removed)
        if not as_json:
            for sign, bindings in (("+", added), ("-", removed)):
                for each in bindings:
                    typer.echo(f"{sign} {_line(each)}")
        if (added or removed) and not dry_run:
            question = f"Add {len(added)} and remove {len(removed)} access control lists?"
            ask_or_refuse(question, yes=yes, refusal="nothing was changed")
            # Denials come before what is allowed goes, and what is allowed before denials go.
            create(admin, added)
            delete(admin, removed)
    if as_json:
        changed = {"added": [document_of(each) for each in added], "removed": [document_of(each) for each in removed]}
        print_json({**changed, "applied": not dry_run})
    elif not added and not removed:
        note("the cluster has these rights already")


def _text_of(file: Path) -> str:
    try:
        return typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperationError(f"cannot read {file}: {error}") from None


def _bindings(
    principal: str, operations: str, resources: list[str], hosts: list[str] | None, *, deny: bool
) -> "list[AclBinding]":
    from ottla_core.acls import WILDCARD, Permission  # noqa: PLC0415
    from ottla_operations.acls.binding_words import binding_of  # noqa: PLC0415

    permission = Permission.DENY if deny else Permission.ALLOW
    words = [word for word in operations.split(",") if word.strip()]
    if not words:
        raise OperationError("no operation is named; read,write is an example")
    return list(
        dict.fromkeys(
            binding_of(resource, principal, word, host=host, permission=permission)
            for resource in resources
            for word in words
            for host in hosts or [WILDCARD]
        )
    )


def _report(done: str, bindings: "Iterable[AclBinding]", *, as_json: bool) -> None:
    from ottla_operations.acls.binding_words import document_of  # noqa: PLC0415

    if as_json:
        print_json({done: [document_of(each) for each in bindings]})
        return
    for each in bindings:
        note(f"{done}: {_line(each)}")


def _line(binding: "AclBinding") -> str:
    from ottla_core.acls import WILDCARD  # noqa: PLC0415
    from ottla_operations.acls.binding_words import document_of  # noqa: PLC0415

    words = document_of(binding)
    source = "" if binding.host == WILDCARD else f" from {binding.host}"
    return f"{words['principal']} {words['permission']} {words['operation']} on {words['resource']}{source}"
