"""`ottla user`: who may log in by SCRAM, and with which password."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.confirmation import Yes, ask_at_terminal
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla_core.cluster.state.security import ScramMechanism


class MechanismName(StrEnum):
    """A variant of SCRAM."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
Mechanisms = Annotated[
    list[MechanismName] | None,
    typer.Option("--mechanism", "-m", help="For logins by this mechanism; may be repeated.", show_default=False),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        show_default="asked for at the terminal",
        help="File whose first line is the password; - is the standard input.",
    ),
]
IterationCount = Annotated[
    int, typer.Option("--iterations", min=4096, max=16384, help="How often the password is hashed.")
]


def list_(
    *, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, properties: ClientProperties = None, as_json: Json = False
) -> None:
    """List the users of SCRAM, with the mechanisms for which they have a password.

    [bold]Examples[/bold]

      ottla user list
    """
    from ottla_operations.users.scram_users import users_of  # noqa: PLC0415

    with cluster_admin(bootstrap, properties) as admin:
        users = users_of(admin)
    documents = [
        {
            "user": user,
            "mechanisms": {mechanism.sasl_name: count for mechanism, count in sorted(iterations.items())},
        }
        for user, iterations in sorted(users.items())
    ]
    if as_json:
        print_json({"users": documents})
        return
    rows = [(each["user"], ", ".join(each["mechanisms"])) for each in documents]
    print_table(("user", "mechanisms"), rows)


def create(
    *,
    name: UserName,
    mechanisms: Mechanisms = None,
    password_file: PasswordFile = None,
    iterations: IterationCount = 8192,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Create a user who logs in by SCRAM.

    The password is asked for, or read from a file; for logins by SCRAM-SHA-512 unless --mechanism says otherwise.

    [bold]Examples[/bold]

      ottla user create flights

      ottla user create flights --password-file /run/secrets/flights -m SCRAM-SHA-256 -m SCRAM-SHA-512
    """
    from ottla.users.password_source import read_password  # noqa: PLC0415
    from ottla_operations.users.scram_users import set_password, users_of  # noqa: PLC0415

    chosen = _numbers(mechanisms or [MechanismName.SHA_512])
    with cluster_admin(bootstrap, properties) as admin:
        if known := users_of(admin).get(name):
            has = ", ".join(sorted(each.sasl_name for each in known))
            raise OperationError(
                f"there is a user {name} already, for {has}; `ottla user password {name}` changes the password"
            )
        set_password(admin, name, read_password(password_file, name), chosen, iterations)
    _report(name, chosen, f"user {name} created", as_json=as_json)


def password(
    *,
    name: UserName,
    mechanisms: Mechanisms = None,
    password_file: PasswordFile = None,
    iterations: IterationCount = 8192,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Change a user's password.

    For all mechanisms that the user has one for, or for those that --mechanism names. Clients that are logged in stay
    so until their login has to be renewed.

    [bold]Examples[/bold]

      ottla user password flights
    """
    from ottla.users.password_source import read_password  # noqa: PLC0415
    from ottla_operations.users.scram_users import set_password, users_of  # noqa: PLC0415

    with cluster_admin(bootstrap, properties) as admin:
        known = users_of(admin).get(name)
        if not known:
            raise OperationError(f"there is no user {name}; `ottla user create {name}` creates it")
        chosen = _numbers(mechanisms) if mechanisms else sorted(known)
        set_password(admin, name, read_password(password_file, name), chosen, iterations)
    _report(name, chosen, f"password of {name} changed", as_json=as_json)


def delete(
    *,
    name: UserName,
    mechanisms: Mechanisms = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Delete a user, or the password for one mechanism.

    Clients that are logged in stay so until their login has to be renewed.

    [bold]Examples[/bold]

      ottla user delete flights --yes
    """
    from ottla_operations.users.scram_users import delete as delete_credentials  # noqa: PLC0415
    from ottla_operations.users.scram_users import users_of  # noqa: PLC0415

    with cluster_admin(bootstrap, properties) as admin:
        known = users_of(admin).get(name)
        if not known:
            raise OperationError(f"there is no user {name}")
        chosen = _numbers(mechanisms) if mechanisms else sorted(known)
        ask_at_terminal(f"Delete user {name}?", yes=yes)
        delete_credentials(admin, name, chosen)
    _report(name, chosen, f"user {name} deleted", as_json=as_json)


def _report(name: str, mechanisms: "Sequence[ScramMechanism]", message: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"user": name, "mechanisms": [each.sasl_name for each in mechanisms]})
    else:
        note(message)


def _numbers(mechanisms: "Sequence[MechanismName]") -> "list[ScramMechanism]":
    from ottla_core.cluster.state.security import ScramMechanism  # noqa: PLC0415

    by_name = {each.sasl_name: each for each in ScramMechanism}
    return [by_name[each] for each in dict.fromkeys(mechanisms)]
