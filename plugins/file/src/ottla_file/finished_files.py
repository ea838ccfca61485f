"""What becomes of finished files whose records are all in the cluster: they are removed or moved away."""

import logging
from pathlib import Path

from ottla_file.followed_file import FollowedFile

_NAMES_MAX = 1_000


def dispose(file: FollowedFile, directory: Path | None, log: logging.Logger) -> bool:
    """Remove a file, or move it into a directory; return whether that is done, or someone else has done it.

    A file that has changed since it was read to its end is left where it is, to be read on.
    """
    path = file.found.path
    try:
        status = path.stat()
        if status.st_ino != file.found.id.inode:
            return True
        if not file.is_unchanged(status.st_size, status.st_mtime_ns):
            return False
        if directory is None:
            path.unlink()
        else:
            path.rename(_free_name(directory, path.name))
    except FileNotFoundError:
        return True
    except OSError as error:
        log.warning("cannot %s the finished file %s: %s", "move" if directory else "remove", path, error)
        return False
    log.info("%s the finished file %s", "moved" if directory else "removed", path)
    return True


def _free_name(directory: Path, name: str) -> Path:
    for number in range(_NAMES_MAX):
        target = directory / (f"{name}.{number}" if number else name)
        if not target.exists():
            return target
    raise FileExistsError(f"{directory} holds {_NAMES_MAX} files called {name} already")
