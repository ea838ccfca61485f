"""The import contract of pure files: `make check` holds every file to it that says of itself that it is pure.

A file says so by a sentence of its docstring that begins with ``Pure.`` or ``Pure:``; the docstring of a package says
so for the whole folder. Nobody keeps a list. Such a file knows no event loop, thread, network, file system, clock or
chance: `now_ms` and what was drawn are arguments. What it must not import stands in `pyproject.toml`; what it must
not call, because the module has pure parts as well, is here.
"""

import ast
import importlib.util
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import grimp
from importlinter import Contract, ContractCheck, fields, output

MARK: Final = re.compile(r"(?:^|[.:?!)`'”] )Pure[.:](?:\s|$)", re.MULTILINE)
NAMES: Final = {
    "uuid": frozenset({"uuid1", "uuid4", "getnode"}),
    "datetime": frozenset({"now", "today", "utcnow"}),
    "pathlib": frozenset(
        {
            "exists",
            "glob",
            "is_dir",
            "is_file",
            "iterdir",
            "mkdir",
            "open",
            "read_bytes",
            "read_text",
            "rglob",
            "stat",
        }
        | {"touch", "unlink", "write_bytes", "write_text"}
    ),
}
"""By module, what asks a clock, chance or the file system; the rest of the module is about values."""
BUILTINS: Final = frozenset({"input", "open", "print"})


def says_pure(source: str) -> bool:
    """Return whether the docstring of a file says that it is pure."""
    return "Pure" in source and MARK.search(ast.get_docstring(ast.parse(source)) or "") is not None


def impurities(source: str, forbidden: Collection[str]) -> Iterator[tuple[int, str]]:
    """Return what a pure file must not do, each with its line.

    Args:
        source: of the file.
        forbidden: modules; their submodules as well.
    """
    tree = ast.parse(source)
    imported: set[str] = set()
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            drawn = NAMES.get(node.module, frozenset())
            yield from ((node.lineno, f"{node.module}.{each.name}") for each in node.names if each.name in drawn)
        imported.update(name.partition(".")[0] for name in found)
        for name in found:
            if any(name == each or name.startswith(f"{each}.") for each in forbidden):
                assert isinstance(node, ast.Import | ast.ImportFrom)
                yield node.lineno, f"import of {name}"
                break
    asked = frozenset().union(*(names for module, names in NAMES.items() if module in imported))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in asked:
            yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            yield node.lineno, f"{node.func.id}()"


def pure_files(roots: Collection[str]) -> Mapping[str, Path]:
    """Return the files of some packages that say that they are pure, or lie in a folder that does, by module."""
    found: dict[str, Path] = {}
    for root in roots:
        spec = importlib.util.find_spec(root)
        assert spec is not None, f"{root} is not installed"
        for folder in map(Path, spec.submodule_search_locations or ()):
            pure_folders: list[Path] = []
            for path in sorted(folder.rglob("*.py"), key=lambda file: (file.parent, file.name != "__init__.py")):
                if any(path.is_relative_to(each) for each in pure_folders) or says_pure(path.read_text("utf-8")):
                    parts = (root, *path.relative_to(folder).with_suffix("").parts)
                    found[".".join(parts).removesuffix(".__init__")] = path
                    if path.name == "__init__.py":
                        pure_folders.append(path.parent)
    return found


class PureFilesContract(Contract):
    """Fails for every pure file that imports or asks what it must not."""

    type_name = "pure_files"
    forbidden_modules = fields.ListField(subfield=fields.StringField())

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Look at each file."""
        forbidden: Any = self.forbidden_modules
        files = pure_files(self.session_options["root_packages"])
        problems = [
            f"{module} (l.{line}): {what}"
            for module, path in files.items()
            for line, what in impurities(path.read_text("utf-8"), forbidden)
        ]
        return ContractCheck(kept=bool(files) and not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Show what each does."""
        for problem in check.metadata["problems"] or ["no file says that it is pure"]:
            output.print_error(problem, bold=False)
