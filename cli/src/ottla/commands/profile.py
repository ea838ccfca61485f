"""`ottla profile`: several clusters, each with its addresses and client settings under a name."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ottla import completion
from ottla.kafka_client import ClientProperties, Json, parse_assignments
from ottla.output import note, print_json, print_table
from ottla.profiles.profile import BadProfile, Profile, check, check_name
from ottla.profiles.profile_choice import profile_named
from ottla.profiles.profile_store import Profiles, profiles_file, read_profiles, write_profiles
from ottla.registry_url import registry_url
from ottla.typed_secrets import warn_of_secrets
from ottla_operations.errors import OperationError, UsageProblem
from ottla_sdk.kafka.secret_settings import is_secret_setting

ProfileName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.profiles, help="The profile.")]


def create(
    *,
    name: ProfileName,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT[,…]", help="The cluster's brokers.")
    ] = None,
    connect_url: Annotated[str | None, typer.Option(metavar="URL[,…]", help="Its Connect workers.")] = None,
    mirror_url: Annotated[str | None, typer.Option(metavar="URL[,…]", help="Its mirror workers.")] = None,
    rest_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with what these workers are shown: as OTTLA_REST_CONFIG names one."),
    ] = None,
    schema_registry: Annotated[
        str | None, typer.Option(metavar="[https://]HOST:PORT[,…]", help="Its schema registry.")
    ] = None,
    properties: ClientProperties = None,
    registry_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--registry-property",
            metavar="KEY=VALUE",
            callback=warn_of_secrets,
            help="Setting of the registry's client; repeatable.",
        ),
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="And use it from now on.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="In place of the profile of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Make a profile. Secrets are written as ${env:NAME} or ${file:PATH}, and looked up when they are used.

    What is typed wins over the environment, which wins over the profile in use; without any, the local cluster is
    meant. The client settings of a profile are used for its own --bootstrap only.

    [bold]Examples[/bold]

      ottla profile create staging --bootstrap kafka-1:9092,kafka-2:9092 --connect-url http://connect:8083 --use

      ottla profile create prod -b kafka:9093 -X security.protocol=sasl_ssl -X 'sasl.password=${env:KAFKA_PASSWORD}'

      ottla profile create lab --schema-registry 127.0.0.1:8081 --registry-property 'basic.auth.user.info=${file:/run/login}'
    """  # noqa: E501
    profiles = read_profiles()
    profile = Profile(
        bootstrap=bootstrap,
        connect_url=connect_url,
        mirror_url=mirror_url,
        rest_config=None if rest_config is None else str(rest_config.expanduser().absolute()),
        schema_registry=None if schema_registry is None else registry_url(schema_registry),
        client=parse_assignments(properties or (), "--property"),
        registry=parse_assignments(registry_properties or (), "--registry-property"),
    )
    try:
        check_name(name)
        check(profile)
    except BadProfile as problem:
        raise UsageProblem(str(problem)) from None
    if name in profiles.by_name and not replace:
        raise OperationError(f"there is a profile {name} already; --replace writes over it")
    write_profiles(Profiles(name if use else profiles.current, {**profiles.by_name, name: profile}))
    if as_json:
        print_json(_document(name, profile, is_current=use or profiles.current == name))
        return
    print(f"created {name}")
    if not use and profiles.current != name:
        note(f"Use it with: ottla profile use {name}")


def use(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=completion.profiles, help="The profile.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="No profile: the local cluster.")] = False,
    as_json: Json = False,
) -> None:
    """Use a profile in every command from now on, where neither --profile nor OTTLA_PROFILE names another one.

    [bold]Examples[/bold]

      ottla profile use staging

      ottla profile use --none
    """
    if (name is None) is not none:
        raise UsageProblem("name a profile, or give --none")
    profiles = read_profiles()
    if name is not None:
        profile_named(name)
    write_profiles(Profiles(name, profiles.by_name))
    if as_json:
        print_json({"current": name})
    else:
        print("no profile is used" if name is None else f"using {name}")


def list_(*, as_json: Json = False) -> None:
    """List the profiles.

    [bold]Examples[/bold]

      ottla profile list

      ottla profile list --json
    """
    profiles = read_profiles()
    documents = [
        _document(name, profile, is_current=name == profiles.current)
        for name, profile in sorted(profiles.by_name.items())
    ]
    if as_json:
        print_json(documents)
        return
    columns = ("bootstrap", "connect_url", "schema_registry")
    print_table(
        ["", "profile", "bootstrap", "connect", "schema registry"],
        [
            ("*" if each["current"] else "", each["name"], *(each.get(column) for column in columns))
            for each in documents
        ],
    )


def show(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", autocompletion=completion.profiles, show_default="the one in use", help="The profile."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a profile. Secrets are shown as the references that they are.

    [bold]Examples[/bold]

      ottla profile show

      ottla profile show staging --json
    """
    found = profile_named(name)
    if found is None:
        raise OperationError("no profile is in use; `ottla profile list` shows those that there are")
    document = _document(found[0], found[1], is_current=read_profiles().current == found[0])
    if as_json:
        print_json(document)
        return
    names = ("name", "bootstrap", "connect_url", "mirror_url", "rest_config", "schema_registry")
    rows = [(key, document.get(key)) for key in names]
    for part in ("client", "registry"):
        rows += [(f"{part} {key}", value) for key, value in sorted(document.get(part, {}).items())]
    print_table(["", ""], [row for row in rows if row[1] is not None])


def delete(*, name: ProfileName, as_json: Json = False) -> None:
    """Delete a profile; nothing happens to its cluster.

    [bold]Examples[/bold]

      ottla profile delete staging
    """
    profile_named(name)
    profiles = read_profiles()
    remaining = {each: profile for each, profile in profiles.by_name.items() if each != name}
    write_profiles(Profiles(None if profiles.current == name else profiles.current, remaining))
    if as_json:
        print_json({"name": name, "status": "deleted"})
    else:
        print(f"deleted {name}")


def _document(name: str, profile: Profile, *, is_current: bool) -> dict[str, Any]:
    document = profile.to_document()
    for part in ("client", "registry"):
        if part in document:
            # Somebody may have written one into the file by hand.
            document[part] = {key: _shown(key, value) for key, value in document[part].items()}
    return {"name": name, "current": is_current, "file": str(profiles_file()), **document}


def _shown(key: str, value: str) -> str:
    return "(hidden)" if is_secret_setting(key) and not value.startswith("${") else value
