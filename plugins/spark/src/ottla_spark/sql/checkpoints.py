"""Where the checkpoint of a pipeline is that names none, and what becomes of it when the pipeline is dropped.

Each `CREATE PIPELINE` gets a folder of its own, `NAME-` and eight hexadecimal digits, so a pipeline never goes on
with what another of its name has left behind. `DROP PIPELINE` removes such a folder from this machine. A checkpoint
that the user has named stays.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from ottla_spark.job.checkpoint_record import FILE_NAME

DIRECTORY_VARIABLE = "OTTLA_DIR"
CHECKPOINTS = "checkpoints"
DIGITS = 8
_NO_FILE_NAME = re.compile(r"[^\w.-]")


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of all checkpoints: in that of the local cluster, if the environment says which that is."""
    if named := environment.get(DIRECTORY_VARIABLE):
        return Path(named).expanduser().absolute() / CHECKPOINTS
    data = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "ottla" / CHECKPOINTS


def new_checkpoint(folder: str, name: str) -> str:
    """Return where the checkpoint of a new pipeline is to be."""
    return f"{folder.rstrip('/')}/{_file_name(name)}-{secrets.token_hex(DIGITS // 2)}"


def removed(location: str, name: str) -> bool:
    """Remove a checkpoint that `new_checkpoint` has named, and that belongs to a pipeline, from this machine.

    Returns:
        Whether it was removed.
    """
    folder = Path(location.removeprefix("file://"))
    if not folder.is_absolute() or not re.fullmatch(
        rf"{re.escape(_file_name(name))}-[0-9a-f]{{{DIGITS}}}", folder.name
    ):
        return False
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return False
        # Looked at where it is removed: nothing but a checkpoint of this pipeline may go.
        if json.loads((folder / FILE_NAME).read_text(encoding="utf-8")).get("connector") != name:
            return False
        # First as a whole, by another name: of one that is still written to, no half may be taken for a checkpoint.
        going = folder.rename(folder.with_name(f".{folder.name}.removed"))
    except (OSError, ValueError, AttributeError):
        return False
    shutil.rmtree(going, ignore_errors=True)
    return True


def _file_name(name: str) -> str:
    return _NO_FILE_NAME.sub("_", name)
