"""Secrets that can be found again: each is given a marker, and all that a cluster writes and tells is searched.

A marker begins with the same word everywhere, so that a search takes as long as for one of them, however many there
are. It is looked for as it is, in base64 (at each of the three places in a group where it may begin), and in
hexadecimal digits; with percent signs it is found as it is, since those only stand for what follows the word.
Secrets that others have made, such as tokens, are looked for whole, in the same forms.
"""

import base64
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

WORD = "Zq7LeakMark"
SHOWN_BYTES = 60
ALIGNMENTS = 3
DIGITS = 3


class PlantedSecrets:
    """The markers that were given out, by what they are secrets of."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._forms: dict[bytes, str] = dict.fromkeys(_forms(WORD.encode()), "")

    def marker(self, name: str) -> str:
        """A secret for a setting or a user; its last part is drawn, and has characters that URLs quote."""
        number = len(self._names)
        self._names[number] = name
        return f"{WORD}{number:0{DIGITS}}/+{os.urandom(6).hex()}"

    def learn(self, name: str, secret: bytes) -> None:
        """Looks for a secret that was made by others, too."""
        self._forms |= dict.fromkeys(_forms(secret), name)

    def found_in(self, content: bytes) -> set[str]:
        """What a text or a file tells: the names of secrets, with what stands around them."""
        found = set()
        for form, name in self._forms.items():
            place = content.find(form)
            if place >= 0:
                around = content[max(0, place - SHOWN_BYTES) : place + SHOWN_BYTES]
                found.add(f"{name or self._name_of(around)}: {around!r}")
        return found

    def _name_of(self, around: bytes) -> str:
        number = around.partition(WORD.encode())[2][:DIGITS]
        return self._names.get(int(number), "a marker") if number.isdigit() else "a marker in another form"


def _forms(secret: bytes) -> Iterator[bytes]:
    """How bytes may be written; short ends that also depend on what stands before or behind are left out."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for before in range(ALIGNMENTS):
        known_bits = slice((before * 8 + 5) // 6, (before + len(secret)) * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * before + secret)[known_bits]


def files_below(folder: Path, *, without: Iterable[Path] = ()) -> Iterator[Path]:
    """All regular files of a folder, but for some files and all below some folders."""
    left_out = set(without)
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and left_out.isdisjoint({path, *path.parents}):
            yield path


def of_processes() -> Iterator[tuple[str, bytes]]:
    """What the system tells of the processes that we may look at: command lines and variables."""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                yield f"{process.name} {name}", (process / name).read_bytes()
            except OSError:
                continue  # it has ended, or is another user's
