"""Where checkpoints of pipelines are, and which of them go with their pipeline."""

import json
from pathlib import Path

import pytest

from ottla_spark.sql.checkpoints import default_folder, new_checkpoint, removed


def checkpoint(location: str, connector: str) -> Path:
    folder = Path(location)
    (folder / "offsets").mkdir(parents=True)
    (folder / "ottla-query.json").write_text(json.dumps({"version": 1, "connector": connector}))
    return folder


def test_they_lie_in_the_directory_of_the_local_cluster_that_is_meant() -> None:
    assert default_folder({"OTTLA_DIR": "/try", "XDG_DATA_HOME": "/data"}) == Path("/try/checkpoints")
    assert default_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/ottla/checkpoints")


def test_a_pipeline_never_gets_the_folder_of_another_of_its_name() -> None:
    assert len({new_checkpoint("s3a://bucket/c/", "a/b") for _ in range(100)}) == 100
    assert new_checkpoint("s3a://bucket/c/", "a/b").startswith("s3a://bucket/c/a_b-")


def test_its_own_folder_is_removed(tmp_path: Path) -> None:
    location = new_checkpoint(str(tmp_path), "a b")
    folder = checkpoint(location, "a b")
    assert removed(f"file://{location}", "a b")
    assert list(tmp_path.iterdir()) == []
    assert not folder.exists()
    assert not removed(location, "a b")


@pytest.mark.parametrize(
    ("folder", "connector"),
    [("mine", "p"), ("p-0123456", "p"), ("p-01234567", "other"), ("q-01234567", "p"), ("p-0123456g", "p")],
)
def test_what_may_be_anything_else_stays(tmp_path: Path, folder: str, connector: str) -> None:
    kept = checkpoint(str(tmp_path / folder), connector)
    assert not removed(str(kept), "p")
    assert (kept / "offsets").is_dir()


def test_a_folder_without_a_checkpoint_and_a_link_stay(tmp_path: Path) -> None:
    (tmp_path / "p-01234567").mkdir()
    assert not removed(str(tmp_path / "p-01234567"), "p")
    kept = checkpoint(str(tmp_path / "elsewhere"), "p")
    (tmp_path / "p-89abcdef").symlink_to(kept)
    assert not removed(str(tmp_path / "p-89abcdef"), "p")
    assert (kept / "offsets").is_dir()
    assert not removed("s3a://bucket/p-01234567", "p")
    assert not removed("p-01234567", "p")
