"""How commands name the two clusters of a mirror: the target as all commands name a cluster, the source beside it."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ottla import completion
from ottla.kafka_client import client_config
from ottla.profiles.profile_choice import profile_named, resolved_settings
from ottla.typed_secrets import warn_of_secrets
from ottla_operations.errors import UsageProblem
from ottla_operations.kafka_access import check_reachable, check_settings

SourceAddress = Annotated[
    str | None,
    typer.Option("--source", metavar="HOST:PORT[,…]", help="Brokers of the source cluster to connect to first."),
]
SourceProfile = Annotated[
    str | None,
    typer.Option(
        "--source-profile",
        metavar="NAME",
        autocompletion=completion.profiles,
        help="The source cluster's profile, instead of --source; see `ottla profile`.",
    ),
]
SourceProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--source-property",
        "--source-X",
        metavar="KEY=VALUE",
        callback=warn_of_secrets,
        help="As --property, for the source cluster; repeatable.",
    ),
]


def source_config(
    address: str | None, profile: str | None, properties: Sequence[str] | None
) -> tuple[str, dict[str, Any]]:
    """Return the source's addresses and the settings of clients for it.

    Raises:
        UsageProblem: it is not named, or twice; see also `client_config`.
        OperationError: there is no such profile.
    """
    if (address is None) == (profile is None):
        raise UsageProblem("name the source cluster with --source or --source-profile")
    of_profile = {}
    if profile is not None:
        found = profile_named(profile)
        assert found is not None, "a name always leads to a profile or an error"
        if found[1].bootstrap is None:
            raise UsageProblem(f"--source-profile {profile}: it has no addresses of brokers")
        address, of_profile = found[1].bootstrap, resolved_settings(found[1].client, f"profile {profile}")
    assert address is not None
    config = client_config(
        address, properties, option="--source-property", address_option="--source", of_profile=of_profile
    )
    check_settings(config)
    check_reachable(address, config, address_option="--source")
    return address, config
