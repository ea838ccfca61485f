"""Writes into the wheel which commit it was built from: that of OTTLA_COMMIT, or else of the checkout.

`ottla_core.build_info` reads it. Where neither is known, as in an archive of the source, the wheel says nothing.
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE = "ottla_core/commit.txt"


class CommitHook(BuildHookInterface):
    """Puts `FILE` into wheels; what is installed in editable mode asks git when it runs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file before the wheel is put together."""
        self._folder = tempfile.TemporaryDirectory()
        commit = os.environ.get("OTTLA_COMMIT", "").replace("unknown", "") or self._commit_of_checkout()
        if commit and version != "editable":
            file = Path(self._folder.name) / "commit.txt"
            file.write_text(f"{commit}\n")
            build_data["force_include"][str(file)] = FILE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file again."""
        self._folder.cleanup()

    def _commit_of_checkout(self) -> str:
        """Return the commit, if this folder is part of a checkout and not just within somebody's."""
        commands = (["ls-files", "--error-unmatch", "hatch_build.py"], ["rev-parse", "HEAD"])
        try:
            said = [
                subprocess.run(["git", *each], cwd=self.root, capture_output=True, text=True, check=True)
                for each in commands
            ]
        except (OSError, subprocess.CalledProcessError):
            return ""
        return said[-1].stdout.strip()
