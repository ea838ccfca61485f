"""What is said of a disk with little room."""

from pathlib import Path

import pytest

from ottla_operations.local_clusters.disk_space import DiskSpace, disk_space

GB = 1_000_000_000


@pytest.mark.parametrize(
    ("free_bytes", "said"),
    [
        (2 * GB, "2.0 GB free of 5.0 GB"),
        (60_000_000, "60.0 MB free of 5.0 GB, which is little"),
        (
            96_000,
            "96.0 kB free of 5.0 GB: full, so that brokers store no records; they do so again when there is room",
        ),
    ],
)
def test_a_full_disk_is_told(free_bytes: int, said: str) -> None:
    assert DiskSpace(free_bytes, 5 * GB).line() == said


def test_a_cluster_starts_where_there_is_room_and_a_new_one_needs_more() -> None:
    folder = Path("/data")
    assert DiskSpace(90_000_000, GB).problem_of_start(folder, is_new=True) is None
    assert DiskSpace(60_000_000, GB).problem_of_start(folder, is_new=False) is None
    assert DiskSpace(60_000_000, GB).problem_of_start(folder, is_new=True) == (
        "there is no room in /data: its disk has 60.0 MB free of 1.0 GB, and a new cluster needs 83.9 MB; "
        "make room, or choose another --dir"
    )
    assert "and a cluster needs 4.2 MB" in (DiskSpace(0, GB).problem_of_start(folder, is_new=False) or "")


def test_the_room_of_a_directory_is_that_of_its_file_system(tmp_path: Path) -> None:
    space = disk_space(tmp_path)
    assert space is not None
    assert 0 <= space.free_bytes < space.size_bytes
    assert disk_space(tmp_path / "nowhere") is None
