"""The images: what they are labelled with, how large they are, who runs in them, and how they take secrets."""

import hashlib
import json
from pathlib import Path

import docker
import pytest
from docker.errors import ContainerError

from tests.support.clusters.compose_project import LABELS, ROOT

pytestmark = pytest.mark.slow

OWN = ("broker", "controller", "group-coordinator", "connect", "cli")
OTHERS = ("etcd", "prometheus")
BROKER_BEYOND_BASE_BYTES_MAX = 200_000_000
PREFIX = "org.opencontainers.image"
HARDENED = {"read_only": True, "cap_drop": ["ALL"], "network_mode": "none", "remove": True}


def version_of_the_project() -> str:
    """As pyproject.toml has it."""
    line = next(each for each in (ROOT / "pyproject.toml").read_text().splitlines() if each.startswith("version = "))
    return line.split('"')[1]


@pytest.mark.parametrize("role", [*OWN, *OTHERS])
def test_an_image_says_what_it_is_and_runs_without_rights(engine: docker.DockerClient, tag: str, role: str) -> None:
    config = engine.images.get(f"ottla-{role}:{tag}").attrs["Config"]

    labels = config["Labels"]
    assert labels[f"{PREFIX}.version"] == version_of_the_project()
    assert labels[f"{PREFIX}.revision"] == LABELS["OTTLA_REVISION"]
    assert labels[f"{PREFIX}.source"] == LABELS["OTTLA_SOURCE"]
    assert labels[f"{PREFIX}.title"]
    assert config["User"] == "ottla"
    assert role == "cli" or config["Healthcheck"]["Test"]


def test_images_share_their_base_and_what_all_need(engine: docker.DockerClient, tag: str) -> None:
    layers = {role: engine.images.get(f"ottla-{role}:{tag}").attrs["RootFS"]["Layers"] for role in OWN}
    own = {
        role: [layer for layer in of_role if layer not in layers["controller"]] for role, of_role in layers.items()
    }

    assert {role: len(each) for role, each in own.items()} == {**dict.fromkeys(OWN, 1), "controller": 0}


def test_the_image_of_a_broker_is_small(engine: docker.DockerClient, tag: str) -> None:
    image = engine.images.get(f"ottla-broker:{tag}")
    base = engine.images.get("python:3.11-slim")

    assert image.attrs["Size"] - base.attrs["Size"] <= BROKER_BEYOND_BASE_BYTES_MAX


def test_the_version_is_told_by_the_command(engine: docker.DockerClient, tag: str) -> None:
    assert version_of_the_project() in engine.containers.run(f"ottla-cli:{tag}", "--version", **HARDENED).decode()


def test_a_secret_that_cannot_be_read_is_named_and_its_content_is_not(
    engine: docker.DockerClient, tag: str, tmp_path: Path
) -> None:
    with pytest.raises(ContainerError) as raised:
        engine.containers.run(
            f"ottla-broker:{tag}", environment={"OTTLA_ETCD_PASSWORD_FILE": "/run/secrets/missing"}, **HARDENED
        )
    assert raised.value.exit_status == 2
    assert (
        b"etcd.password: cannot read the file /run/secrets/missing: No such file or directory" in raised.value.stderr
    )

    secret = tmp_path / "node-id"
    secret.write_text("a secret")
    secret.chmod(0o644)
    tmp_path.chmod(0o755)
    with pytest.raises(ContainerError) as raised:
        engine.containers.run(
            f"ottla-broker:{tag}",
            environment={"OTTLA_NODE_ID_FILE": "/run/secrets/node-id"},
            volumes={str(secret): {"bind": "/run/secrets/node-id", "mode": "ro"}},
            **HARDENED,
        )
    assert b"node.id: write a whole number [file /run/secrets/node-id" in raised.value.stderr
    assert b"a secret" not in raised.value.stderr


@pytest.mark.parametrize("role", OWN)
def test_an_image_has_the_code_that_it_was_built_from(
    engine: docker.DockerClient, tag: str, clone: Path, role: str
) -> None:
    program = (
        "import hashlib, json, pathlib, ottla_core; root = pathlib.Path(ottla_core.__file__).parent;"
        "print(json.dumps({str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()"
        " for file in root.rglob('*.py')}))"
    )
    found = json.loads(engine.containers.run(f"ottla-{role}:{tag}", ["-c", program], entrypoint="python", **HARDENED))

    source = clone / "core/src/ottla_core"
    assert found == {
        str(file.relative_to(source)): hashlib.sha256(file.read_bytes()).hexdigest() for file in source.rglob("*.py")
    }
