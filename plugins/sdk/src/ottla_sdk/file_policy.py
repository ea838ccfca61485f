"""Which files connectors may touch in this process, and whether it may start others, as the worker's settings say.

The runtime decides both before it makes a connector. A plugin that opens a file by a setting asks `permitted_path`
first, right before it opens it, so that whoever configures it reads what is wrong. Where the kernel can (Landlock),
the runtime has it see to both as well: at the moment of each opening, for every library, and for plugins that do not
ask.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla_sdk.errors import FatalError

_STARTS = frozenset(
    {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
)
"""Audit events of Python by which a process is started."""

_state: dict[str, Any] = {"roots": None, "processes": True}


class FileRefused(FatalError):
    """The worker does not let connectors touch a file."""


class ProcessRefused(FatalError, PermissionError):
    """The worker does not let connectors start processes."""


def limit_files(roots: Sequence[str] | None) -> None:
    """Decide for this process below which directories connectors may touch files; None: anywhere."""
    _state["roots"] = None if roots is None else tuple(Path(each).resolve() for each in roots)


def permitted_path(path: Path | str) -> Path:
    """Return where a file is that may be touched, all links followed; the path as it is where nothing is limited.

    Raises:
        FileRefused: it may not.
    """
    roots = _state["roots"]
    if roots is None:
        return Path(path)
    target = Path(path).resolve()
    if any(target.is_relative_to(root) for root in roots):
        return target
    below = " or ".join(map(str, roots)) or "no directory at all"
    raise FileRefused(
        f"{path} is not below {below}, where the worker's connector.file.roots.allowed lets connectors touch files; "
        "use another path, or ask whoever runs the worker"
    )


@contextmanager
def of_worker() -> Iterator[None]:
    """Have what is done meanwhile be by the worker's own settings, which may name any file."""
    roots, _state["roots"] = _state["roots"], None
    try:
        yield
    finally:
        _state["roots"] = roots


def forbid_processes() -> None:
    """Have nothing in this process start another one, for ever."""
    if _state["processes"]:
        _state["processes"] = False
        sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, _arguments: tuple[object, ...]) -> None:
    if event in _STARTS:
        raise ProcessRefused(
            "the worker's connector.processes.allowed=false lets connectors start no processes; use a connector or a "
            "converter that needs none, or ask whoever runs the worker"
        )
