"""What the tests of deploy/ share: an engine, a copy of the repository, images, and projects that end in time."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from tests.support.clusters.compose_project import COMMAND_DEADLINE_S, LABELS, ComposeProject, copy_of_repository
from tests.support.requirements import require

MakeProject = Callable[[str], ComposeProject]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """The engine."""
    require("docker")
    client = docker.from_env(timeout=COMMAND_DEADLINE_S)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository."""
    return copy_of_repository(tmp_path_factory.mktemp("clone") / "ottla")


@pytest.fixture(scope="session")
def tag(engine: docker.DockerClient, clone: Path) -> Iterator[str]:
    """The tag of this run's images. All of the cluster are built; at the end those that were built go."""
    own = f"test-{os.getpid()}"
    environment = {**os.environ, "OTTLA_TAG": own, **LABELS}
    build = ["docker", "compose", "-f", "deploy/compose.yaml", "--profile", "cli", "build", "--quiet"]
    done = subprocess.run(
        build, cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=COMMAND_DEADLINE_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    try:
        yield own
    finally:
        for image in engine.images.list():
            for name in image.tags:
                if name.endswith(f":{own}"):
                    _remove(engine, name)


def _remove(engine: docker.DockerClient, name: str) -> None:
    try:
        engine.images.remove(name, force=True)
    except ImageNotFound:  # another name of the same image was the last
        return


@pytest.fixture(scope="module")
def make_project(engine: docker.DockerClient, clone: Path, tag: str) -> Iterator[MakeProject]:
    """Makes projects; what is left of them is removed at the end of the module."""
    with ExitStack() as ending:

        def make(name: str) -> ComposeProject:
            project = ComposeProject(f"ottla-test-{os.getpid()}-{next(_numbers)}-{name}", clone, engine, tag)
            ending.callback(project.remove)
            return project

        yield make
