"""Ships the plugin and its dependencies to the executors of a cluster.

Executors need a Python of the driver's version and nothing else: the packages that the driver has go with the job, in
archives that Spark unpacks in each executor's folder, which is on the path of its Python workers. Archives are kept
(`archive_cache.py`), so only the first driver after a change takes the seconds to pack. Packages in editable mode
change more often than others and have an archive of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path

from ottla_sdk import InvalidConfig, Problem
from ottla_spark.cluster.archive_cache import default_folder, kept_archive
from ottla_spark.cluster.dependencies import files_of, fingerprint, is_editable, required_distributions
from ottla_spark.cluster.master import is_local

SHIP_KEY = "spark.ottla.ship"
CACHE_KEY = "spark.ottla.ship.cache"
ARCHIVES_KEY = "spark.archives"
PYTHON_PATH_KEY = "spark.executorEnv.PYTHONPATH"
FOLDERS = {"sources": "ottla_sources", "dependencies": "ottla_dependencies"}
"""Kinds of archives, and where each is unpacked."""


def shipping_settings(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings that bring the plugin and its dependencies to the executors; none for a local master.

    Args:
        master: `spark.master`.
        settings: what the user has set. Their `spark.archives` and `spark.executorEnv.PYTHONPATH` are added to; what
            is on the path there comes before what is shipped. With `spark.ottla.ship` false, or an archive of the
            user's own that is unpacked as `ottla_dependencies`, nothing is shipped.

    Raises:
        InvalidConfig: `spark.ottla.ship` is neither true nor false.
        CannotShip: the files of a package cannot be found.
    """
    archives = [each for each in settings.get(ARCHIVES_KEY, "").split(",") if each]
    brought = any(each.endswith("#" + FOLDERS["dependencies"]) for each in archives)
    if is_local(master) or brought or not _is_wanted(settings):
        return {}
    shipped = packed(Path(settings[CACHE_KEY]) if CACHE_KEY in settings else default_folder())
    paths = [each for each in settings.get(PYTHON_PATH_KEY, "").split(":") if each]
    return {
        ARCHIVES_KEY: ",".join([*archives, *(f"{archive}#{folder}" for folder, archive in shipped.items())]),
        PYTHON_PATH_KEY: ":".join([*paths, *shipped]),
    }


def packed(cache: Path) -> dict[str, Path]:
    """Return the archives of what executors need, by the folder to unpack them in.

    Args:
        cache: where archives are kept; what is there already is not packed again.

    Raises:
        CannotShip: the files of a package cannot be found.
    """
    found = required_distributions()
    parts = {
        "sources": [each for each in found if is_editable(each)],
        "dependencies": [each for each in found if not is_editable(each)],
    }
    return {
        FOLDERS[kind]: kept_archive(cache, kind, fingerprint(part), partial(_files, part))
        for kind, part in parts.items()
        if part
    }


def _files(distributions: Sequence[Distribution]) -> Iterator[tuple[str, Path]]:
    for each in distributions:
        yield from files_of(each)


def _is_wanted(settings: Mapping[str, str]) -> bool:
    wanted = settings.get(SHIP_KEY, "true").strip().lower()
    if wanted not in {"true", "false"}:
        raise InvalidConfig([Problem(SHIP_KEY, f"{wanted!r} is neither true nor false")])
    return wanted == "true"
