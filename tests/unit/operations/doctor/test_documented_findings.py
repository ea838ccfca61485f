"""docs/doctor.md names every finding that there is, and no other."""

import ast
import re
from pathlib import Path

import ottla_operations.doctor

ROOT = Path(__file__).parents[4]


def rules_in(source: str) -> set[str]:
    """The names of rules: the second argument of every `Finding`."""
    calls = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    named = [each.args[1] for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Finding"]
    return {each.value for name in named for each in ast.walk(name) if isinstance(each, ast.Constant)}


def test_every_finding_is_documented() -> None:
    (folder,) = ottla_operations.doctor.__path__
    known = set().union(*(rules_in(path.read_text()) for path in Path(folder).glob("*.py")))
    page = (ROOT / "docs" / "doctor.md").read_text()
    cells = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| `", page, re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`([a-z-]+)`", cell)}

    assert documented == known
