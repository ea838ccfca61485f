"""What a service process leaves unimported although it may be installed.

Some libraries import whatever useful they find beside them: kio takes Hypothesis, for test data, structlog takes
Rich, for colours, and Pydantic asks every distribution for plugins. A service has no use for any of it, and would pay
with a third of its start and a tenth of its memory. Each library does without if the import fails.

Called before the first import of such a library: each service's `__main__` is `run_lean` of its app, and imports
nothing else. Never called in the tests' own process, which needs Hypothesis.
"""

import importlib
import os
import sys

LEFT_OUT = ("hypothesis", "rich")
PLUGINS_OF_PYDANTIC = "PYDANTIC_DISABLE_PLUGINS"


def leave_out_extras() -> None:
    """Have imports of what a service does not need fail from here on."""
    for name in LEFT_OUT:
        # Python's own mark of a module that cannot be imported.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type] # typeshed knows modules only
    os.environ.setdefault(PLUGINS_OF_PYDANTIC, "__all__")


def run_lean(app: str) -> int:
    """Run the `main` of a module, imported without what a service does not need; return the exit code."""
    leave_out_extras()
    code: int = importlib.import_module(app).main()
    return code
