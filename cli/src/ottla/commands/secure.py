"""`ottla secure`: an authority of one's own, the certificates of a cluster, and its users in etcd."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.kafka_client import Json
from ottla.output import note, print_json, print_table
from ottla_operations.errors import UsageProblem

if TYPE_CHECKING:
    from ottla.secure.certificate_folder import CertificateFolder
    from ottla.secure.holders import ClusterHolders

DAYS_DEFAULT = 365
AUTHORITY_DAYS_DEFAULT = 3650
WARNING_DAYS = 30
CLUSTER_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
"""What `cluster.name` may be, as far as it is a part of a DNS name."""
HOST_NAME_LENGTH_MAX = 253
DAYS_MAX = 36_500

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the certificates.")]
Days = Annotated[int, typer.Option(min=1, max=DAYS_MAX, metavar="DAYS", help="How long certificates are valid.")]
AuthorityDays = Annotated[
    int, typer.Option(min=1, max=DAYS_MAX, metavar="DAYS", help="How long the authority is valid.")
]
Brokers = Annotated[int, typer.Option(min=0, metavar="COUNT", help="How many brokers.")]
Controllers = Annotated[int, typer.Option(min=0, metavar="COUNT", help="How many controllers.")]
Coordinators = Annotated[int, typer.Option(min=0, metavar="COUNT", help="How many group coordinators.")]
EtcdNodes = Annotated[int, typer.Option(min=0, metavar="COUNT", help="How many members of etcd.")]
Connect = Annotated[int, typer.Option(min=0, metavar="COUNT", help="How many Connect workers.")]
Mirror = Annotated[int, typer.Option(min=0, metavar="COUNT", help="How many mirror workers.")]


def init(
    *,
    folder: Folder,
    cluster: Annotated[str, typer.Option(help="The cluster's name, as in cluster.name.")] = "ottla",
    brokers: Brokers = 1,
    controllers: Controllers = 1,
    coordinators: Coordinators = 1,
    etcd_nodes: EtcdNodes = 1,
    connect: Connect = 0,
    mirror: Mirror = 0,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="PROCESS=NAME[,…]",
            help="Host names and addresses of a process, such as broker-1=kafka-1.example,10.0.0.5; repeatable. "
            "Without any, a process is on this machine.",
        ),
    ] = None,
    administrator: Annotated[
        str, typer.Option("--admin", metavar="NAME", help="The common name of the administrator's certificate.")
    ] = "admin",
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", "-b", metavar="HOST:PORT[,…]", help="Brokers, for client.properties.")
    ] = "",
    days: Days = DAYS_DEFAULT,
    authority_days: AuthorityDays = AUTHORITY_DAYS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Make an authority, and certificates of all processes of a cluster and of an administrator.

    Each process has a folder with all that it needs, to be brought to its host. The authority's key, authority/ca.key, signs whatever its holder likes: keep it elsewhere. Nobody but you may read the files.

    [bold]Examples[/bold]

      ottla secure init tls                                           one of everything, on this machine

      ottla secure init tls --cluster flights --brokers 3 --controllers 3 --coordinators 2 --etcd-nodes 3 --host broker-1=kafka-1.example --host broker-2=kafka-2.example --host broker-3=kafka-3.example

      ottla secure init tls --bootstrap kafka-1.example:9093          with the brokers' address in admin/client.properties
    """  # noqa: E501
    from ottla.secure.certificate_folder import CertificateFolder  # noqa: PLC0415 - takes a tenth of a second
    from ottla.secure.holders import ClusterHolders  # noqa: PLC0415

    counts = {
        "broker": brokers,
        "controller": controllers,
        "group-coordinator": coordinators,
        "etcd": etcd_nodes,
        "connect": connect,
        "mirror": mirror,
    }
    holders = ClusterHolders(cluster=cluster, counts=counts, administrator=administrator, hosts=_hosts(hosts or ()))
    _check_holders(holders)
    made = CertificateFolder.create(
        folder,
        holders,
        now=datetime.now(UTC),
        valid=timedelta(days=days),
        authority_valid=timedelta(days=authority_days),
    )
    client_file = made.write_client_file(bootstrap)
    if as_json:
        rest_file = str(made.rest_file)
        print_json({"folder": str(made.path), "client_config": str(client_file), "rest_config": rest_file})
    else:
        ends = _first_end(made)
        note(f"Certificates for {len(holders.subjects())} holders are in {made.path}, valid until {ends}.")
        note(f"Clients of the administrator use {client_file}, and commands that speak to workers {made.rest_file}.")
        note(f"Keep {made.path / 'authority' / 'ca.key'} where no process of the cluster runs.")


def _first_end(made: "CertificateFolder") -> str:
    """Return when the first certificate ends; they end no later than the authority."""
    return f"{min(each.ends for each in made.facts()):%Y-%m-%d %H:%M} UTC"


def _check_holders(holders: "ClusterHolders") -> None:
    """See that the command line names processes that there are, and an administrator who is nobody else.

    Raises:
        UsageProblem: it does not.
    """
    from ottla.secure.authority import COMMON_NAME_LENGTH_MAX  # noqa: PLC0415
    from ottla.secure.holders import ETCD_ROOT_USER  # noqa: PLC0415
    from ottla_core.rpc_identity import ADMIN  # noqa: PLC0415

    subjects, administrator = holders.subjects(), holders.administrator
    if unknown := holders.hosts.keys() - subjects.keys():
        known = ", ".join(subjects)
        raise UsageProblem(f"--host {min(unknown)}: there is no such process; there are: {known}")
    if not CLUSTER_NAME.fullmatch(holders.cluster):
        raise UsageProblem(
            f"--cluster {holders.cluster}: use up to 63 letters, digits, dots, hyphens and underscores"
        )
    if not 0 < len(administrator) <= COMMON_NAME_LENGTH_MAX:
        raise UsageProblem(f"--admin: a common name has 1 to {COMMON_NAME_LENGTH_MAX} characters")
    for process, names in holders.hosts.items():
        if wrong := [name for name in names if not name.isascii() or len(name) > HOST_NAME_LENGTH_MAX]:
            raise UsageProblem(f"--host {process}={wrong[0]}: no host name; write those of other scripts in Punycode")
    if (administrator != ADMIN and administrator in subjects) or administrator == ETCD_ROOT_USER:
        raise UsageProblem(f"--admin {administrator}: etcd would take the administrator for that user")


def renew(
    *,
    folder: Folder,
    days: Days = DAYS_DEFAULT,
    begin_authority: Annotated[
        bool, typer.Option("--begin-authority", help="Make a new authority, which is trusted beside the former one.")
    ] = False,
    end_authority: Annotated[
        bool, typer.Option("--end-authority", help="Have nobody trust the former authority any more.")
    ] = False,
    authority_days: AuthorityDays = AUTHORITY_DAYS_DEFAULT,
    as_json: Json = False,
) -> None:
    """Replace the certificates; a running cluster takes them up by itself, within seconds, and no request fails.

    Where the files lie on other hosts, bring them there after each step. A new authority comes in three steps: first everybody trusts it, then everybody has a certificate of it, then nobody trusts the former one. Wait between two steps until all processes have read the files (5 seconds), and restart the members of etcd one by one, which read the authorities at their start only.

    [bold]Examples[/bold]

      ottla secure renew tls                                          new certificates and keys for everybody

      ottla secure renew tls --begin-authority                        first step to a new authority

      ottla secure renew tls                                          second step

      ottla secure renew tls --end-authority                          third step
    """  # noqa: E501
    from ottla.secure.certificate_folder import CertificateFolder  # noqa: PLC0415

    if begin_authority and end_authority:
        raise UsageProblem("--begin-authority and --end-authority are two steps, with a renewal between them")
    made = CertificateFolder(folder)
    now = datetime.now(UTC)
    if begin_authority:
        made.begin_authority(now, timedelta(days=authority_days))
        done, said = "authority begun", "Everybody trusts a new authority beside the former one. Next: renew."
    elif end_authority:
        made.end_authority()
        done, said = "authority ended", "Nobody trusts the former authority any more."
    else:
        made.issue_all(now, timedelta(days=days))
        done, said = "certificates renewed", f"Everybody has a new certificate, valid until {_first_end(made)}."
    if as_json:
        print_json({"folder": str(made.path), "done": done})
    else:
        note(said)


def show(*, folder: Folder, as_json: Json = False) -> None:
    """Show for whom the certificates are, and until when; the exit code is 1 if one ends within 30 days.

    [bold]Examples[/bold]

      ottla secure show tls

      ottla secure show tls --json
    """
    from ottla.secure.certificate_folder import CertificateFolder  # noqa: PLC0415

    facts = list(CertificateFolder(folder).facts())
    now = datetime.now(UTC)
    if as_json:
        print_json(
            {
                "certificates": [
                    {
                        "holder": each.holder,
                        "common_name": each.common_name,
                        "names": list(each.names),
                        "issuer": each.issuer,
                        "begins": each.begins.isoformat(),
                        "ends": each.ends.isoformat(),
                        "days_left": (each.ends - now).days,
                    }
                    for each in facts
                ]
            }
        )
    else:
        print_table(
            ["HOLDER", "COMMON NAME", "ENDS", "DAYS LEFT#", "NAMES"],
            [
                (
                    each.holder,
                    each.common_name,
                    f"{each.ends:%Y-%m-%d %H:%M}",
                    (each.ends - now).days,
                    ", ".join(each.names),
                )
                for each in facts
            ],
        )
    ending = [each.holder for each in facts if each.ends - now < timedelta(days=WARNING_DAYS)]
    if ending:
        note(f"Within {WARNING_DAYS} days or already: {', '.join(ending)}; renew with `ottla secure renew {folder}`.")
        raise typer.Exit(1)


def etcd_users(
    *,
    folder: Folder,
    etcd: Annotated[str, typer.Option("--etcd", metavar="URL", help="A member of etcd, with https.")],
    as_json: Json = False,
) -> None:
    """Make the users that the cluster's processes are to etcd, and have etcd ask for them.

    Each process is known by its certificate, and may write what is its own: a broker and a group coordinator their registration, a controller all of its cluster's state. etcd has to ask for certificates (ETCD_CLIENT_CERT_AUTH=true). What is there already stays, so the command may be repeated.

    [bold]Examples[/bold]

      ottla secure etcd-users tls --etcd https://127.0.0.1:2379
    """  # noqa: E501
    from ottla.secure.certificate_folder import CA, CERTIFICATE, KEY, CertificateFolder  # noqa: PLC0415
    from ottla.secure.etcd_users import make_users  # noqa: PLC0415
    from ottla.secure.holders import ETCD_ROOT  # noqa: PLC0415

    made = CertificateFolder(folder)
    files = (made.file(ETCD_ROOT, CA), made.file(ETCD_ROOT, CERTIFICATE), made.file(ETCD_ROOT, KEY))
    new = make_users(etcd, files, made.holders.cluster, made.holders.counts)
    if as_json:
        print_json({"new_users": new})
    else:
        note(f"etcd asks who calls; new users: {', '.join(new) or 'none'}.")


def rest_user(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, rest.basic.users.location of workers.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            show_default="asked for at the terminal",
            help="File whose first line is the password; - is the standard input.",
        ),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the user.")] = False,
    as_json: Json = False,
) -> None:
    """Set the password of a user of workers' REST APIs in a file, hashed, or delete the user.

    Only you may read a file that is made. Running workers read a file that has changed again; give the same to all workers.

    [bold]Examples[/bold]

      ottla secure rest-user rest-users ann                           asks for the password

      ottla secure rest-user rest-users ann --password-file ann.txt

      ottla secure rest-user rest-users ann --delete
    """  # noqa: E501
    from ottla.secure.rest_users import delete_user, set_password  # noqa: PLC0415
    from ottla.users.password_source import read_password  # noqa: PLC0415

    if delete:
        if password_file is not None:
            raise UsageProblem("--delete takes no --password-file")
        delete_user(file, name)
        told = f"{name} is deleted from {file}."
    else:
        set_password(file, name, lambda: read_password(password_file, name))
        told = f"{name} is in {file}; rest.administrators of workers says who may do more than read."
    if as_json:
        print_json({"file": str(file), "name": name, "status": "deleted" if delete else "set"})
    else:
        note(told)


def _hosts(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for text in texts:
        process, equals, names = text.partition("=")
        listed = tuple(name.strip() for name in names.split(",") if name.strip())
        if not equals or not listed:
            raise UsageProblem(f"--host {text}: write it as PROCESS=NAME[,…], such as broker-1=kafka-1.example")
        found[process.strip()] = listed
    return found
