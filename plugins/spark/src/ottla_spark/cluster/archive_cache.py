"""Keeps archives of packages in a folder of the user's, so that a driver packs them only when they have changed.

A driver holds a lock on the archives that it uses as long as it lives, because Spark reads the files again for every
new executor. Archives that nobody has locked are removed but for the latest ones. A file appears under its name when
it is complete; two drivers that pack the same at the same time do not disturb each other.
"""

import fcntl
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

UNUSED_KEPT_MAX = 2
COMPRESSION_LEVEL = 1
"""A third of the size in a few seconds: an archive goes over the network to every executor."""
_EARLIEST_TIME = (1980, 1, 1, 0, 0, 0)

_held: dict[Path, IO[bytes]] = {}


def default_folder() -> Path:
    """Return where archives are kept unless a setting says otherwise: by the XDG base directory specification."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "ottla" / "spark"


def kept_archive(folder: Path, kind: str, name: str, files: Callable[[], Iterable[tuple[str, Path]]]) -> Path:
    """Return an archive, packed now unless the folder has it, and keep it there as long as this process lives.

    Args:
        folder: made if it does not exist.
        kind: of archives of each kind, a few that nobody uses are kept.
        name: says exactly what is in it.
        files: returns paths inside the archive, with the files that are to be there.
    """
    path = folder.resolve() / f"{kind}-{name}.zip"
    if path not in _held and not _hold(path):
        _pack(path, files())
        _remove_unused(path.parent, kind)
    return path


def _hold(path: Path) -> bool:
    """Lock an archive against being removed, and return whether it is there."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    fcntl.flock(file, fcntl.LOCK_SH)
    if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
        file.close()
        return False
    os.utime(path)
    _held[path] = file
    return True


def _pack(path: Path, files: Iterable[tuple[str, Path]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=".partial", dir=path.parent)
    file = os.fdopen(descriptor, "w+b")
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        with zipfile.ZipFile(file, "w") as archive:
            for inside, source in files:
                entry = zipfile.ZipInfo(inside, _EARLIEST_TIME)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, source.read_bytes(), zipfile.ZIP_DEFLATED, COMPRESSION_LEVEL)
        file.flush()
        Path(partial).replace(path)
    except BaseException:
        file.close()
        Path(partial).unlink(missing_ok=True)
        raise
    _held[path] = file


def _remove_unused(folder: Path, kind: str) -> None:
    """Remove what no driver uses, but for the latest archives, which one may soon."""
    unused = [path for path in folder.glob(f"{kind}-*") if path not in _held]
    kept = 0
    for path in sorted(unused, key=_used_at, reverse=True):
        if path.suffix == ".zip" and kept < UNUSED_KEPT_MAX:
            kept += 1
        else:
            _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except (BlockingIOError, FileNotFoundError):
        return


def _used_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
