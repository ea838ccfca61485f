"""Writes a plugin project to start from, from the files in `plugin_template/`.

In their texts `{{name}}` stands for the plugin's name, `{{package}}` for its Python package and `{{Class}}` for what
its classes' names begin with; the folder `package` becomes that of the package.
"""

import importlib.util
import keyword
import re
from pathlib import Path

from ottla_operations.errors import OperationError

TEMPLATE = Path(__file__).parent / "plugin_template"
_SUFFIX = ".template"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME_LENGTH_MAX = 50


class BadPluginName(ValueError):
    """A plugin cannot have this name; the message says why."""


def write_plugin_project(name: str, directory: Path) -> list[Path]:
    """Write a project into a new folder, called as the plugin, and return the paths of its files.

    Args:
        name: small letters, digits, and hyphens between words, such as ``weather`` or ``acme-billing``.
        directory: where the folder is made; it is made too if it is not there.

    Raises:
        BadPluginName: the name is not of that form, or belongs to a Python package that is there already.
        OperationError: the folder exists already, or cannot be written.
    """
    _check_name(name)
    project = directory / name
    if project.exists():
        raise OperationError(f"{project} exists already; choose another name or remove it")
    package = name.replace("-", "_")
    words = {
        "{{name}}": name,
        "{{package}}": package,
        "{{Class}}": "".join(word.capitalize() for word in name.split("-")),
    }
    written = []
    try:
        for template in sorted(TEMPLATE.rglob(f"*{_SUFFIX}")):
            relative = str(template.relative_to(TEMPLATE)).removesuffix(_SUFFIX)
            target = project / relative.replace("src/package/", f"src/{package}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(template.read_text(encoding="utf-8"), words), encoding="utf-8")
            written.append(target)
    except OSError as error:
        raise OperationError(f"cannot write the project: {error}") from error
    return written


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _NAME_LENGTH_MAX:
        raise BadPluginName(
            f"{name!r} cannot be a plugin's name: it must be small letters and digits, with a hyphen between words, "
            f"{_NAME_LENGTH_MAX} characters at most, such as weather or acme-billing"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package):
        raise BadPluginName(f"{name} cannot be a plugin's name: it means something in Python")
    if importlib.util.find_spec(package) is not None:
        raise BadPluginName(f"{name} cannot be a plugin's name: there is a Python package {package} already")


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
