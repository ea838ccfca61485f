"""The rights of Ottla's own programs as the documentation tells them, given to users of a test.

So whoever grants what is written there has programs that work, and whoever tests them with these rights tests the
page.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ottla.acls.acl_file import AclFile, read_acl_file
from ottla_core.acls import AclBinding

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
_BLOCK = re.compile(r"^```yaml\n(principals:.*?)^```$", re.MULTILINE | re.DOTALL)


def documented_rights(program: str, user: str, names: Mapping[str, Sequence[str]]) -> list[AclBinding]:
    """What a program of the page may do, as the rights of a user.

    Args:
        program: whose rights they are there, such as ``mirror-at-source``.
        user: who gets them.
        names: what stands for each name of the page; the others stay as they are.
    """
    (found,) = (each for each in _files() if f"User:{program}" in each.principals)
    return [
        replace(binding, name=name, principal=f"User:{user}")
        for binding in found.bindings
        if binding.principal == f"User:{program}"
        for name in names.get(binding.name, (binding.name,))
    ]


def files_of(*programs: str) -> list[str]:
    """The files of the page that have some programs, each once, as `ottla acl apply` takes them."""
    wanted = {f"User:{each}" for each in programs}
    found = [text for text in _texts() if read_acl_file(text, PAGE.name).principals & wanted]
    assert wanted <= {name for text in found for name in read_acl_file(text, PAGE.name).principals}, "not on the page"
    return found


@cache
def _files() -> tuple[AclFile, ...]:
    return tuple(read_acl_file(text, PAGE.name) for text in _texts())


def _texts() -> list[str]:
    return [found[1] for found in _BLOCK.finditer(PAGE.read_text())]
