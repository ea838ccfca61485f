"""PostgreSQL's programs: those on PATH or in Debian's /usr/lib/postgresql/VERSION/bin."""

import shutil
from pathlib import Path

INSTALL_COMMAND = "apt-get install postgresql"
DEBIAN_PROGRAMS = "/usr/lib/postgresql"


def find_program(name: str) -> str | None:
    """The path of one of PostgreSQL's programs, of the newest version that is installed; None if none is."""
    if on_path := shutil.which(name):
        return on_path
    versions = Path(DEBIAN_PROGRAMS)
    folders = sorted(versions.iterdir(), key=lambda each: float(each.name)) if versions.is_dir() else []
    found = [folder / "bin" / name for folder in folders if (folder / "bin" / name).is_file()]
    return str(found[-1]) if found else None
