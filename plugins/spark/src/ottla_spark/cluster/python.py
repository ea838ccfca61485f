"""Which Python runs the workers of a job.

Spark starts the same command everywhere: on the executors' machines, and on the driver's, where it plans reads and
writes. A path inside the driver's environment exists nowhere else. So on a cluster the command is a name, such as
`python3.11`, that every machine looks up for itself; on the driver's machine its own environment comes first.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ottla_sdk import FatalError
from ottla_spark.cluster.master import is_local

PYTHON_KEY = "spark.pyspark.python"
ASK_TIMEOUT_S = 30.0


class PythonUnusable(FatalError):
    """There is no Python that can run the workers of a job."""


def set_worker_python(master: str, settings: Mapping[str, str]) -> None:
    """Set the environment, which Spark's Java process inherits, so that the workers of a job run in the right Python.

    Raises:
        PythonUnusable: `spark.pyspark.python` does not exist on the driver's machine, or has another version.
    """
    here = str(Path(sys.executable).parent)
    if is_local(master):
        chosen = settings.get(PYTHON_KEY, sys.executable)
    else:
        chosen = settings.get(PYTHON_KEY, f"python{own_version()}")
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        if folders[0] != here:
            os.environ["PATH"] = os.pathsep.join([here, *folders])
        _add_to_python_path(_package_folders())
        _check(chosen)
    os.environ["PYSPARK_PYTHON"] = chosen
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def own_version() -> str:
    """Return the version that driver and executors have to share."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _check(chosen: str) -> None:
    found = shutil.which(chosen)
    if found is None:
        raise PythonUnusable(
            f"there is no {chosen} on the driver's machine, where Spark runs it too: let {PYTHON_KEY} be a name that "
            f"all machines have on their PATH, such as python{own_version()}"
        )
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run(
            [found, "-I", "-c", ask], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PythonUnusable(f"{found} ({PYTHON_KEY}) does not run: {error}") from None
    if said.stdout.strip() != own_version():
        raise PythonUnusable(
            f"{found} ({PYTHON_KEY}) is Python {said.stdout.strip()}, but the driver runs in {own_version()}: both "
            "have to be of the same version"
        )


def _package_folders() -> list[str]:
    """Return the folders that the driver's packages are imported from, without those of the Python itself."""
    library = (Path(sys.base_prefix) / "lib" / f"python{own_version()}").resolve()
    of_python = (library, library / "lib-dynload")
    return [each for each in sys.path if each and Path(each).is_dir() and Path(each).resolve() not in of_python]


def _add_to_python_path(folders: list[str]) -> None:
    """Let workers on the driver's machine find the driver's packages, also if another Python there runs them."""
    known = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    os.environ["PYTHONPATH"] = os.pathsep.join([*known, *(each for each in folders if each not in known)])
