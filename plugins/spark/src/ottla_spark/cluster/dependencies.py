"""Finds out what executors need of the driver's Python packages: which distributions, and which files of them.

What a distribution requires stands in its metadata, so `ottla-spark` and all that it needs are found however they
were installed. A distribution in editable mode consists of the packages in the folder that its `.pth` file names.
PySpark is not shipped: executors have it from Spark itself, in its version.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ottla_sdk import FatalError

ROOT = "ottla-spark"
BROUGHT_BY_SPARK = frozenset({"pyspark", "py4j"})
ONLY_FOR_PEOPLE = frozenset({"prompt-toolkit", "rich", "typer"})
"""The prompt's; executors have nobody to talk to."""
UNUSED_FOLDERS = frozenset({"__pycache__", "tests", "include"})
UNUSED_SUFFIXES = frozenset({".pyc", ".pyi", ".pxd", ".pyx", ".pxi", ".h", ".hpp", ".cc", ".a"})
LAYOUT_VERSION = 1
"""Goes into the fingerprint: raise it when the same packages are to be packed in another way."""


class CannotShip(FatalError):
    """The files of a package cannot be found."""


def required_distributions(root: str = ROOT) -> list[Distribution]:
    """Return a distribution and all that it requires on executors, by name.

    Raises:
        CannotShip: one that is required is not installed.
    """
    found: dict[str, Distribution] = {}
    followed: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(root)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        step = (name, frozenset(requirement.extras))
        if name in BROUGHT_BY_SPARK | ONLY_FOR_PEOPLE or step in followed:
            continue
        followed.add(step)
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise CannotShip(f"{name}, which executors need, is not installed on the driver's machine") from None
        waiting += _requirements(found[name], {"", *requirement.extras})
    return [found[name] for name in sorted(found)]


def files_of(found: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files that a distribution consists of at run time, each with its path below a folder of `sys.path`.

    Raises:
        CannotShip: its metadata does not say.
    """
    if is_editable(found):
        yield from _editable_files(found)
        return
    if found.files is None:
        raise CannotShip(
            f"nothing says which files {found.name} consists of: there is no RECORD beside its metadata; "
            "install it with pip"
        )
    for file in found.files:
        path = Path(str(found.locate_file(file)))
        if _is_used(file) and path.is_file():
            yield file.as_posix(), path


def fingerprint(found: Sequence[Distribution]) -> str:
    """Return a name for exactly these packages in this Python: it changes with any of their files."""
    digest = hashlib.sha256(f"{LAYOUT_VERSION} {sys.version_info[:2]} {platform.machine()}".encode())
    for each in found:
        digest.update(f"\n{each.name} {each.version} {each.read_text('RECORD')}".encode())
        if is_editable(each):
            for name, path in sorted(_editable_files(each)):
                digest.update(f"\n{name} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()[:16]


def _requirements(found: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement


def is_editable(found: Distribution) -> bool:
    """Return whether a distribution's files are where they are edited."""
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _editable_files(found: Distribution) -> Iterator[tuple[str, Path]]:
    pth_files = [Path(str(found.locate_file(file))) for file in found.files or () if file.suffix == ".pth"]
    lines = [line.strip() for file in pth_files for line in file.read_text().splitlines()]
    folders = [Path(line) for line in dict.fromkeys(lines) if line and Path(line).is_dir()]  # a line per package
    if not folders:
        raise CannotShip(
            f"{found.name} is installed in editable mode, and no .pth file names the folder of its packages: "
            "install it in another way, or set spark.ottla.ship to false and install it on the cluster's machines"
        )
    for folder in folders:
        for package in sorted(each.parent for each in folder.glob("*/__init__.py")):
            for path in sorted(package.rglob("*")):
                name = PurePosixPath(path.relative_to(folder).as_posix())
                if path.is_file() and _is_used(name):
                    yield str(name), path


def _is_used(file: PurePosixPath) -> bool:
    return (
        ".." not in file.parts
        and UNUSED_FOLDERS.isdisjoint(file.parts)
        and file.suffix not in UNUSED_SUFFIXES
        and not file.is_absolute()
    )
