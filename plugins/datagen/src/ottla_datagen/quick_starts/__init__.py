"""Data schemas that are ready to use, one JSON file each."""

from pathlib import Path

_DIRECTORY = Path(__file__).parent

NAMES: tuple[str, ...] = tuple(sorted(path.stem for path in _DIRECTORY.glob("*.json")))
"""Their names."""


def quick_start(name: str) -> str:
    """Return the JSON text of one of them."""
    return (_DIRECTORY / f"{name}.json").read_text(encoding="utf-8")
