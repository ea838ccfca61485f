"""Files that are read again: what makes them count as changed, and what is left of them when they cannot be used."""

from pathlib import Path

import pytest

from ottla_core.errors import ConfigurationError
from ottla_core.reloaded_files import ReloadedFiles


class Folder:
    """Two files that belong together if they have the same text, and how often they were read."""

    def __init__(self, directory: Path) -> None:
        self.paths = (directory / "one", directory / "two")
        self.reads = 0

    def write(self, one: str, two: str) -> None:
        for path, text in zip(self.paths, (one, two), strict=True):
            fresh = path.with_suffix(".new")
            fresh.write_text(text)
            fresh.replace(path)  # another inode, whatever the clock says

    def read(self) -> str:
        self.reads += 1
        try:
            texts = {path.read_text() for path in self.paths}
        except OSError as error:
            raise ConfigurationError(f"cannot read {error.filename}") from None
        if len(texts) > 1:
            raise ConfigurationError(f"{sorted(texts)} do not belong together")
        return texts.pop()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("a", "a")
    return folder


def test_files_are_read_again_when_one_has_changed_and_only_then(folder: Folder) -> None:
    files = ReloadedFiles(folder.paths, folder.read)
    assert (files.contents, files.look(), folder.reads) == ("a", False, 1)
    folder.write("b", "b")
    assert (files.look(), files.contents) == (True, "b")
    assert (files.look(), folder.reads) == (False, 2)


def test_files_that_cannot_be_used_leave_the_former_contents_and_are_told_of_once(folder: Folder) -> None:
    files = ReloadedFiles(folder.paths, folder.read)
    folder.write("b", "a")
    with pytest.raises(ConfigurationError, match="do not belong together"):
        files.look()
    assert (files.look(), files.contents, files.are_outdated, folder.reads) == (False, "a", True, 2)
    folder.write("b", "b")
    assert (files.look(), files.contents, files.are_outdated) == (True, "b", False)


def test_files_that_change_while_they_are_read_are_left_to_the_next_look(folder: Folder) -> None:
    def read_slowly() -> str:
        text = folder.read()
        if text == "b":
            folder.write("c", "c")
        return text

    files = ReloadedFiles(folder.paths, read_slowly)
    folder.write("b", "b")
    assert (files.look(), files.contents) == (False, "a")
    assert (files.look(), files.contents) == (True, "c")


def test_files_that_cannot_be_used_at_the_start_are_an_error(folder: Folder) -> None:
    folder.write("a", "b")
    with pytest.raises(ConfigurationError):
        ReloadedFiles(folder.paths, folder.read)


def test_a_file_that_is_gone_counts_as_changed(folder: Folder) -> None:
    files = ReloadedFiles(folder.paths, folder.read)
    folder.paths[0].unlink()
    with pytest.raises(ConfigurationError, match="cannot read"):
        files.look()
    assert files.contents == "a"
