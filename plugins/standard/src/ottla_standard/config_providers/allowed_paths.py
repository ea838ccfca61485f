"""Which files a config provider may read."""

from collections.abc import Iterable
from pathlib import Path

from ottla_sdk import FatalError, PluginConfig, Problem, setting
from ottla_sdk.config import CommaSeparated


class AllowedPathsConfig(PluginConfig):
    """The setting of config providers that read files."""

    allowed_paths: CommaSeparated = setting(
        "allowed.paths",
        (),
        doc="Absolute paths of directories and files that may be read, with all that is below them; everything if "
        "none is named.",
    )

    def check(self) -> Iterable[Problem]:
        """Look for the paths."""
        for each in map(Path, self.allowed_paths):
            if not each.is_absolute():
                yield Problem("allowed.paths", f"{each.as_posix()} is not absolute")
            elif not each.exists():
                yield Problem("allowed.paths", f"{each.as_posix()} does not exist")

    def resolved(self, path: str) -> Path:
        """Return a path that may be read.

        Raises:
            FatalError: it may not. Links are followed first, so that none leads out of what is allowed.
        """
        if not path:
            raise FatalError("the reference must name a path, as in ${provider:/path:key}")
        asked = Path(path)
        if not self.allowed_paths:
            return asked
        target = asked.resolve()
        # What is allowed may itself be a link; a link within it, such as those of Kubernetes' secrets, stays inside.
        if any(target.is_relative_to(Path(each).resolve()) for each in self.allowed_paths):
            return target
        raise FatalError(f"{path} is not below any of allowed.paths")
