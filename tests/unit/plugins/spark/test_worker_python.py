"""Which Python the workers of a job run in."""

import os
import sys
from pathlib import Path

import pytest

from ottla_spark.cluster.python import PythonUnusable, own_version, set_worker_python

CLUSTER = "spark://10.0.0.1:7077"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch):
    """What is set is set back afterwards."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "PATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def other_python(folder: Path, version: str) -> Path:
    program = folder / "python-other"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return program


def test_a_local_job_runs_in_the_drivers_python():
    set_worker_python("local[2]", {})

    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_on_a_cluster_every_machine_looks_up_a_python_of_the_drivers_version():
    set_worker_python(CLUSTER, {})

    assert os.environ["PYSPARK_PYTHON"] == f"python{own_version()}"


def test_on_the_drivers_machine_its_own_python_and_packages_come_first():
    set_worker_python(CLUSTER, {})

    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    folders = os.environ["PYTHONPATH"].split(os.pathsep)
    assert str(Path(pytest.__file__).parents[1]) in folders
    assert str(Path(os.__file__).parent) not in folders, "another Python has a standard library of its own"


@pytest.mark.parametrize("master", [CLUSTER, "local"])
def test_a_python_that_the_user_chose_is_taken(master: str):
    set_worker_python(master, {"spark.pyspark.python": sys.executable})

    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_python_that_the_drivers_machine_lacks_is_an_error_that_says_what_to_do():
    with pytest.raises(PythonUnusable, match=r"there is no /opt/none on the driver's machine.* such as python3\.\d+"):
        set_worker_python(CLUSTER, {"spark.pyspark.python": "/opt/none"})


def test_a_python_of_another_version_is_refused(tmp_path: Path):
    chosen = other_python(tmp_path, "3.9")

    with pytest.raises(PythonUnusable, match=r"is Python 3\.9, but the driver runs in 3\.\d+"):
        set_worker_python(CLUSTER, {"spark.pyspark.python": str(chosen)})
