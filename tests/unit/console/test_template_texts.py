"""Templates show whatever clusters tell, escaped, and have no script or style within."""

import re
from pathlib import Path

import pytest

import ottla_console

TEMPLATES = sorted((Path(ottla_console.__file__).parent / "templates").glob("*.html"))
UNESCAPED = re.compile(r"\|\s*safe\b|\bMarkup\b|autoescape|\|\s*tojson\b")
SCRIPTED = re.compile(
    r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=|hx-on|hx-vals=.?js:|javascript:", re.IGNORECASE
)
UNQUOTED = re.compile(r"\s[\w-]+=\{\{")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_escapes_everything_and_has_no_script_of_its_own(path: Path) -> None:
    text = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
    for rule in (UNESCAPED, SCRIPTED, UNQUOTED):
        assert rule.search(text) is None, rule.pattern
