"""The prompt itself: statements over several lines until a semicolon, with history and completion."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.completion import begun_word, candidates
from ottla_spark.sql.screen import note
from ottla_spark.sql.sql_errors import Interrupted, InterruptedTwice, SqlProblem
from ottla_spark.statement_splitting import is_complete, split

MESSAGE = "ottla> "
CONTINUATION = "     > "
WITHOUT_SEMICOLON = frozenset({"exit", "quit", "help"})


def ask_and_run(catalog: Catalog, run: Callable[[str], bool]) -> None:
    """Read statements from the terminal and have them carried out, until Ctrl-D or EXIT.

    Args:
        catalog: for completion.
        run: carries out a statement, and tells whether there may be another.

    Raises:
        InterruptedTwice: Ctrl-C, and again before the statement had ended.
    """
    session: PromptSession[str] = PromptSession(
        MESSAGE,
        prompt_continuation=CONTINUATION,
        multiline=True,
        key_bindings=_keys(),
        history=_history(),
        completer=NameCompleter(catalog),
        complete_in_thread=True,
        enable_history_search=False,
    )
    while True:
        try:
            text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if not _run_all(text, run):
            return


def _run_all(text: str, run: Callable[[str], bool]) -> bool:
    """Carry out what was typed; after one that fails, the rest is left out."""
    for statement in split(text):
        try:
            if not run(statement.text):
                return False
        except SqlProblem as problem:
            note(f"ottla: {problem}")
            return True
        except InterruptedTwice:
            raise
        except Interrupted:
            note("")
            return True
    return True


class NameCompleter(Completer):
    """Offers keywords, topics, tables and columns.

    Args:
        catalog: knows them.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may come next."""
        text = document.text_before_cursor
        try:
            names = {*self._catalog.names(), *self._catalog.temporary_views}
        except SqlProblem:
            # The cluster is away for a moment; who types wants no error for it.
            names = set()
        start = -len(begun_word(text))
        for each in candidates(text, names, dict(self._catalog.columns)):
            yield Completion(each, start)


def is_finished(text: str) -> bool:
    """Return whether Enter sends what was typed, and does not begin a new line."""
    stripped = text.strip()
    return not stripped or stripped.lower() in WITHOUT_SEMICOLON or is_complete(text)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: is_finished(get_app().current_buffer.text)))
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _history() -> History:
    """Return the history of former sessions; none where its file cannot be written."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(state) / "ottla" / "sql_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
