"""The sections of docs/containers.md, whose commands tests type."""

import re

from tests.documents.documents import ROOT, Command, steps

PAGE = ROOT / "docs/containers.md"


def commands_of(section: str) -> list[str]:
    """The commands of a section, by its title; those before the first section have the page's."""
    parts = re.split(r"^#+ (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return [step.line for step in steps(texts[section]) if isinstance(step, Command)]


def sections() -> list[str]:
    """The titles of all sections that have commands."""
    return [title for title in re.findall(r"^#+ (.+)$", PAGE.read_text(), re.MULTILINE) if commands_of(title)]
