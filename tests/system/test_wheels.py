"""Each distribution, built as a wheel and installed alone into a fresh environment: all its modules can be imported.

"Alone" is with what it requires and nothing more, in the versions of constraints.txt. That takes packages from the
index that pip uses, or from uv's cache.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla_core.build_info import source_commit
from tests.unit.test_distributions import PROJECTS, ROOT, project_of

UV = Path(sys.executable).with_name("uv")
COMMAND_DEADLINE_S = 600
# Wheels of the same version are made anew by each run, so those in uv's cache are others.
REFRESHED = [word for project in PROJECTS for word in ("--refresh-package", project_of(project)["name"])]
IMPORTED = """
import importlib, json, pkgutil, sys
from importlib.metadata import distribution
found = distribution(sys.argv[1])
tops = {file.parts[0] for file in found.files if file.name == "__init__.py" and len(file.parts) == 2}
names = set()
for top in tops:
    package = importlib.import_module(top)
    names |= {each.name for each in pkgutil.walk_packages(package.__path__, f"{top}.", onerror=lambda name: None)}
names = {name for name in names if not name.endswith(".__main__") and ".conformance" not in name}
for name in sorted(names):
    importlib.import_module(name)
commit = None
if "ottla_core" in tops:
    from ottla_core.build_info import COMMIT_FILE
    commit = COMMIT_FILE.read_text().strip()
text = {file.name: file.locate() for file in found.files}
print(json.dumps({
    "version": found.version,
    "modules": len(names),
    "licence": text["LICENSE"].read_text()[:200] if "LICENSE" in text else "",
    "readme": found.read_text("METADATA").partition("\\n\\n")[2],
    "commit": commit,
}))
"""


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=COMMAND_DEADLINE_S)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS:
        run(UV, "build", "--quiet", "--no-sources", "--wheel", "--out-dir", folder, project)
    return folder


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_wheel_installed_alone_can_be_imported_and_says_what_it_is(wheels: Path, tmp_path: Path, project: Path):
    name, python = project_of(project)["name"], tmp_path / "bin" / "python"
    run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, tmp_path)
    run(
        *(UV, "pip", "install", "--quiet", "--python", python, "--no-sources"),
        *("--constraints", "constraints.txt", "--find-links", wheels, *REFRESHED, name),
    )
    said = json.loads(run(python, "-I", "-c", IMPORTED, name).splitlines()[-1])
    assert said["version"] == project_of(project)["version"]
    assert said["modules"] > 0
    assert "Apache License" in said["licence"]
    assert said["readme"].startswith(f"# {name}\n")
    if name == "ottla-core":
        assert said["commit"] == source_commit()
