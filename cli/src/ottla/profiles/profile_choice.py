"""The profile that a command uses, between what is typed and the local cluster.

What is typed, addresses before the name of a profile, wins over the environment, which wins over the profile in use,
which wins over a local cluster that runs in the directory that is meant where none is named, which wins over Kafka's
usual ports. What a profile or that cluster says is put where the environment would say it, so that it reaches the
commands of plugins, too. Client settings go with the profile's own addresses only: credentials of one cluster are
never sent to another one.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ottla.profiles.profile import BadProfile, Profile, resolved
from ottla.profiles.profile_store import look_up, profiles_file, read_profiles
from ottla_operations.errors import OperationError

PROFILE_VARIABLE = "OTTLA_PROFILE"
VARIABLES = {
    "bootstrap": "OTTLA_BOOTSTRAP",
    "connect_url": "OTTLA_CONNECT_URL",
    "mirror_url": "OTTLA_MIRROR_URL",
    "schema_registry": "OTTLA_SCHEMA_REGISTRY",
}
"""By field of a profile: the variable that says the same."""

REST_VARIABLE = "OTTLA_REST_CONFIG"
REST_URLS_VARIABLE = "OTTLA_REST_CONFIG_URLS"
"""What `ottla_sdk.worker_access` looks at: a file, and the URLs of workers for which it is."""

_chosen: tuple[str, Profile] | None = None


def choose_profile(name: str | None, *, is_typed: bool = False) -> None:
    """Use a profile for the rest of this process: the named one, or else the current one, if there is any.

    Args:
        name: the profile's name.
        is_typed: whether the name was typed: who does so means that cluster, whatever the environment says.

    Raises:
        OperationError: there is no such profile.
    """
    global _chosen  # noqa: PLW0603 - one command, one profile
    found = profile_named(name)
    _chosen = found
    for field, variable in VARIABLES.items():
        value = None if found is None else getattr(found[1], field)
        if value and (is_typed or not os.environ.get(variable)):
            os.environ[variable] = value
    if found is not None and found[1].client and found[1].bootstrap:
        _tell_plugins(found[1].bootstrap, found[1].client)
    if found is not None and found[1].rest_config and (is_typed or not os.environ.get(REST_VARIABLE)):
        _use_rest_config(found[1].rest_config, [found[1].connect_url, found[1].mirror_url])
    _use_local_cluster()


def _tell_plugins(bootstrap: str, settings: Mapping[str, str]) -> None:
    """Put client settings where commands of plugins look for them; what they refer to is looked up there."""
    from ottla_sdk.kafka.known_settings import VARIABLE, written_settings  # noqa: PLC0415

    os.environ[VARIABLE] = written_settings(bootstrap, settings)


def _use_rest_config(file: str, urls: Sequence[str | None]) -> None:
    os.environ[REST_VARIABLE] = file
    os.environ[REST_URLS_VARIABLE] = ",".join(url for url in urls if url)


def _use_local_cluster() -> None:
    """Take the addresses of the local cluster if it runs, unless it is known where the cluster is.

    What its brokers and workers are shown is taken in any case, as it is for these only.
    """
    knows_cluster, knows_rest = (os.environ.get(each) for each in (VARIABLES["bootstrap"], REST_VARIABLE))
    from ottla.local.cluster_directory import (  # noqa: PLC0415 - where an address is known it is not needed
        ClusterDirectory,
        UnusableDirectory,
        default_directory,
    )
    from ottla_operations.local_clusters.process_identity import is_alive  # noqa: PLC0415

    try:
        report = ClusterDirectory(default_directory()).read_report()
    except UnusableDirectory:
        return
    if report is None or not is_alive(report.supervisor):
        return
    if report.client_config and (_chosen is None or not _chosen[1].client):
        with suppress(OperationError):  # of a file that only those need who speak to this cluster; they are told
            _tell_plugins(report.bootstrap, _settings_of_file(report.client_config))
    if report.rest_config and not knows_rest:
        _use_rest_config(report.rest_config, [*report.connect, *report.mirror])
    if knows_cluster:
        return
    os.environ[VARIABLES["bootstrap"]] = report.bootstrap
    for field, urls in (("connect_url", report.connect), ("mirror_url", report.mirror)):
        if urls and not os.environ.get(VARIABLES[field]):
            os.environ[VARIABLES[field]] = ",".join(urls)


def profile_named(name: str | None) -> tuple[str, Profile] | None:
    """Return the named profile, or else the current one, with its name; None if there is no current one.

    Raises:
        OperationError: there is no profile of that name.
    """
    profiles = read_profiles()
    wanted = name or profiles.current
    if wanted is None:
        return None
    if wanted not in profiles.by_name:
        known = ", ".join(sorted(profiles.by_name)) or "none"
        raise OperationError(f"there is no profile {wanted}; there are: {known} (in {profiles_file()})")
    return wanted, profiles.by_name[wanted]


def client_settings(bootstrap: str) -> dict[str, str]:
    """Return the settings for clients of the cluster at these addresses: the profile's, or the local cluster's.

    There are none if the addresses are those of neither.

    Raises:
        OperationError: a reference in them leads nowhere, or the local cluster's file cannot be read.
    """
    if _chosen is None or _chosen[1].bootstrap != bootstrap:
        return _settings_of_local_cluster(bootstrap)
    return resolved_settings(_chosen[1].client, f"profile {_chosen[0]}")


def _settings_of_local_cluster(bootstrap: str) -> dict[str, str]:
    from ottla.local.cluster_directory import (  # noqa: PLC0415
        ClusterDirectory,
        UnusableDirectory,
        default_directory,
    )

    try:
        report = ClusterDirectory(default_directory()).read_report()
    except UnusableDirectory:
        return {}
    if report is None or report.client_config is None:
        return {}
    if not set(bootstrap.split(",")) <= set(report.bootstrap.split(",")):
        return {}
    return _settings_of_file(report.client_config)


def _settings_of_file(file: str) -> dict[str, str]:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError as error:
        raise OperationError(f"cannot read {file}: {error.strerror}") from None
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip() != "bootstrap.servers"}


def registry_settings(url: str) -> dict[str, str]:
    """Return the profile's settings for the schema registry at this URL; none if it is not its own.

    Raises:
        OperationError: a reference in them leads nowhere.
    """
    if _chosen is None or _chosen[1].schema_registry != url:
        return {}
    return resolved_settings(_chosen[1].registry, f"profile {_chosen[0]}")


def typed_settings(settings: Mapping[str, str], option: str) -> dict[str, str]:
    """Return settings that were typed, with what their references stand for.

    Raises:
        OperationError: a reference in them leads nowhere.
    """
    return resolved_settings(settings, option)


def resolved_settings(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """Return settings with what their references stand for.

    Raises:
        OperationError: a reference leads nowhere; the message begins with `where`.
    """
    try:
        return resolved(settings, look_up)
    except BadProfile as problem:
        raise OperationError(f"{where}: {problem}") from None
