"""What becomes of finished files whose records are all in the cluster: they are removed or moved away."""

import errno
import logging
from pathlib import Path

from ottla_file.followed_file import FollowedFile
from ottla_sdk.file_policy import permitted_path

_NAMES_MAX = 1_000
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def dispose(file: FollowedFile, directory: Path | None, log: logging.Logger) -> bool:
    """Remove a file, or move it into a directory; return whether that is done, or someone else has done it.

    A file that has changed since it was read to its end is left where it is, to be read on.

    Raises:
        FileRefused: the worker does not let connectors touch it.
    """
    path = file.found.path
    permitted_path(path.parent)
    try:
        status = path.stat()
        if status.st_ino != file.found.id.inode:
            return True
        if not file.is_unchanged(status.st_size, status.st_mtime_ns):
            return False
        if directory is None:
            path.unlink()
        else:
            _move(path, directory)
    except FileNotFoundError:
        return True
    except OSError as error:
        log.warning("cannot %s the finished file %s: %s", "move" if directory else "remove", path, error)
        return False
    log.info("%s the finished file %s", "moved" if directory else "removed", path)
    return True


def _move(path: Path, directory: Path) -> None:
    """Move a file into a directory, over no other: tasks may move files of the same name at the same time."""
    for number in range(_NAMES_MAX):
        target = directory / (f"{path.name}.{number}" if number else path.name)
        try:
            target.hardlink_to(path)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if target.exists():  # the file system has no links, and so no way to ask and move in one
                continue
            path.rename(target)
        else:
            path.unlink()
        return
    raise FileExistsError(f"{directory} holds {_NAMES_MAX} files called {path.name} already")
