"""What is shipped to executors, how archives are kept, and how users' own settings are respected."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from ottla_sdk import InvalidConfig
from ottla_spark.cluster import archive_cache, shipping
from ottla_spark.cluster.archive_cache import UNUSED_KEPT_MAX, default_folder, kept_archive
from ottla_spark.cluster.dependencies import CannotShip, files_of, fingerprint, required_distributions
from ottla_spark.cluster.shipping import shipping_settings

CLUSTER = "spark://10.0.0.1:7077"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder to install packages in."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    return folder


def installed(site: Path, name: str, files: dict[str, str], *, direct_url: str = "{}") -> Distribution:
    """A distribution as pip would have installed it."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "direct_url.json").write_text(direct_url)
    for inside, content in files.items():
        (site / inside).parent.mkdir(parents=True, exist_ok=True)
        (site / inside).write_text(content)
    listed = [*files, f"{name}-1.0.dist-info/METADATA"]
    (metadata / "RECORD").write_text("".join(f"{each},sha256={hash(files.get(each))},1\n" for each in listed))
    return PathDistribution(metadata)


def editable(site: Path, name: str, source: Path) -> Distribution:
    return installed(
        site, name, {f"_{name}.pth": f"{source}\n"}, direct_url='{"url": "file:///x", "dir_info": {"editable": true}}'
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of a package `delays` that is being edited."""
    folder = tmp_path / "src"
    (folder / "delays" / "tests").mkdir(parents=True)
    for each in (
        "delays/__init__.py",
        "delays/reading.py",
        "delays/data.json",
        "delays/tests/test_it.py",
        "setup.py",
    ):
        (folder / each).write_text(each)
    return folder


def test_what_the_plugin_requires_is_found_through_all_its_dependencies():
    names = {each.name.lower().replace("_", "-") for each in required_distributions()}

    assert {"ottla-spark", "ottla-sdk", "confluent-kafka", "pyarrow", "pandas", "numpy", "fastavro"} <= names
    assert "httpcore" in names, "httpx requires it"


def test_what_spark_brings_and_what_only_people_need_stays_at_home():
    names = {each.name.lower() for each in required_distributions()}

    assert names.isdisjoint({"pyspark", "py4j", "rich", "typer", "prompt-toolkit", "prompt_toolkit"})


def test_a_requirement_that_is_not_installed_is_named():
    with pytest.raises(CannotShip, match="no-such-package, which executors need, is not installed"):
        required_distributions("no-such-package")


def test_only_what_is_used_at_run_time_is_shipped(site: Path):
    wanted = ["delays/__init__.py", "delays/native.so", "delays.libs/libx.so.1", "delays/data.json"]
    left = [
        "delays/__pycache__/x.pyc",
        "delays/tests/test_x.py",
        "delays/include/x.h",
        "delays/x.pyi",
        "../bin/delays",
    ]
    found = installed(site, "delays", dict.fromkeys([*wanted, *left], ""))

    assert {name for name, _ in files_of(found)} == {*wanted, "delays-1.0.dist-info/METADATA"}


def test_of_an_editable_package_the_sources_are_shipped(site: Path, package: Path):
    found = dict(files_of(editable(site, "delays", package)))

    assert set(found) == {"delays/__init__.py", "delays/reading.py", "delays/data.json"}
    assert found["delays/reading.py"].read_text() == "delays/reading.py"


def test_an_editable_package_that_is_nowhere_to_be_found_is_an_error_that_says_what_to_do(site: Path, tmp_path: Path):
    with pytest.raises(CannotShip, match=r"delays is installed in editable mode.* set spark\.ottla\.ship to false"):
        list(files_of(editable(site, "delays", tmp_path / "gone")))


def test_a_package_without_a_list_of_files_is_an_error(site: Path):
    found = installed(site, "delays", {})
    (site / "delays-1.0.dist-info" / "RECORD").unlink()

    with pytest.raises(CannotShip, match="nothing says which files delays consists of"):
        list(files_of(found))


def test_the_fingerprint_changes_with_an_edited_source_and_with_nothing_else(site: Path, package: Path):
    found = editable(site, "delays", package)
    before = fingerprint([found])

    os.utime(package / "delays" / "reading.py", (0, 0))
    (package / "delays" / "tests" / "test_it.py").write_text("other")
    assert fingerprint([found]) == before

    (package / "delays" / "reading.py").write_text("other")
    assert fingerprint([found]) != before


def test_the_fingerprint_changes_with_a_package_of_the_same_version_but_with_other_files(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = installed(tmp_path / "a", "delays", {"delays/__init__.py": "one"})
    other = installed(tmp_path / "b", "delays", {"delays/__init__.py": "other"})

    assert fingerprint([one]) != fingerprint([other])


@pytest.fixture
def released() -> Iterator[Callable[[], None]]:
    """Lets go of all archives, as if the process had ended; also done at the end."""

    def release() -> None:
        for file in archive_cache._held.values():
            file.close()
        archive_cache._held.clear()

    yield release
    release()


def packed_once(folder: Path, name: str) -> Path:
    source = folder.parent / "file.py"
    source.write_text(name)
    return kept_archive(folder, "sources", name, lambda: [("delays/file.py", source)])


@pytest.mark.usefixtures("released")
def test_an_archive_has_the_files_at_their_paths(tmp_path: Path):
    with zipfile.ZipFile(packed_once(tmp_path / "cache", "a")) as archive:
        assert {each.filename: archive.read(each) for each in archive.infolist()} == {"delays/file.py": b"a"}


def test_an_archive_that_is_there_is_not_packed_again(tmp_path: Path, released: Callable[[], None]):
    first = packed_once(tmp_path / "cache", "a")
    written = first.stat().st_ino
    released()

    def fail() -> Iterator[tuple[str, Path]]:
        raise AssertionError("packed again")

    assert kept_archive(tmp_path / "cache", "sources", "a", fail) == first
    assert first.stat().st_ino == written


def test_archives_that_nobody_uses_are_removed_but_for_the_latest(tmp_path: Path, released: Callable[[], None]):
    cache = tmp_path / "cache"
    for number in range(5):
        os.utime(packed_once(cache, f"old-{number}"), (number, number))
    released()
    other_kind = cache / "dependencies-a.zip"
    other_kind.write_bytes(b"")
    new = packed_once(cache, "new")

    latest = {f"sources-old-{number}.zip" for number in range(5 - UNUSED_KEPT_MAX, 5)}
    assert {each.name for each in cache.iterdir()} == {new.name, other_kind.name, *latest}


def test_an_archive_that_another_process_uses_stays(tmp_path: Path, released: Callable[[], None]):
    cache = tmp_path / "cache"
    used = packed_once(cache, "used")
    released()
    program = f"import fcntl; file = open({str(used)!r}, 'rb'); fcntl.flock(file, fcntl.LOCK_SH); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        os.utime(used, (0, 0))
        for number in range(UNUSED_KEPT_MAX + 2):
            packed_once(cache, f"new-{number}")
            released()
        assert used.exists()
        other.communicate(b"\n")


def test_packing_that_fails_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        kept_archive(tmp_path / "cache", "sources", "a", lambda: [("a.py", tmp_path / "missing")])

    assert list((tmp_path / "cache").iterdir()) == []


def test_archives_are_kept_where_the_xdg_specification_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/ottla/spark")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_folder() == Path("/home/somebody/.cache/ottla/spark")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, site: Path, package: Path, released: Callable[[], None]) -> None:
    """Ottla and its dependencies are two tiny packages."""
    both = [editable(site, "delays", package), installed(site, "numbers", {"numbers.py": ""})]
    monkeypatch.setattr(shipping, "required_distributions", lambda: both)


@pytest.mark.usefixtures("small")
def test_a_local_master_needs_nothing_shipped():
    assert shipping_settings("local[*]", {}) == {}


@pytest.mark.usefixtures("small")
def test_archives_go_to_a_cluster_and_onto_the_path_of_its_workers(tmp_path: Path):
    found = shipping_settings(CLUSTER, {"spark.ottla.ship.cache": str(tmp_path / "cache")})

    archives = [each.partition("#") for each in found["spark.archives"].split(",")]
    assert [folder for _, _, folder in archives] == ["ottla_sources", "ottla_dependencies"]
    assert found["spark.executorEnv.PYTHONPATH"] == "ottla_sources:ottla_dependencies"
    names = [zipfile.ZipFile(path).namelist() for path, _, _ in archives]
    assert "delays/reading.py" in names[0]
    assert "numbers.py" in names[1]


@pytest.mark.usefixtures("small")
def test_a_users_archives_and_paths_stay_and_come_first(tmp_path: Path):
    own = {"spark.archives": "model.zip#model", "spark.executorEnv.PYTHONPATH": "model/lib:/opt/lib"}
    found = shipping_settings(CLUSTER, {**own, "spark.ottla.ship.cache": str(tmp_path / "cache")})

    assert found["spark.archives"].startswith("model.zip#model,")
    assert found["spark.executorEnv.PYTHONPATH"] == "model/lib:/opt/lib:ottla_sources:ottla_dependencies"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "settings", [{"spark.ottla.ship": "false"}, {"spark.archives": "hdfs:///packed.zip#ottla_dependencies"}], ids=str
)
def test_shipping_can_be_left_to_the_user(settings: dict[str, str]):
    assert shipping_settings(CLUSTER, settings) == {}


def test_a_switch_that_is_neither_on_nor_off_is_refused():
    with pytest.raises(InvalidConfig, match=r"spark\.ottla\.ship: 'maybe' is neither true nor false"):
        shipping_settings(CLUSTER, {"spark.ottla.ship": "maybe"})
