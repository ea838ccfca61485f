"""`ottla sql`: the command line, and how it ends.

Exit codes are those of every `ottla` command: 0 done, 1 a statement failed (one line on standard error says why), 2
wrong usage, 130 interrupted. A reader that goes away (`ottla sql … | head`) is no error.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ottla_spark.cluster.session_folder import LOCAL_DIRECTORY_KEY, session_folder
from ottla_spark.sql.problems import Interrupted, ReaderGone, SqlProblem, UsageProblem
from ottla_spark.sql.result_format import ResultFormat
from ottla_spark.sql.screen import note
from ottla_spark.statements import split

if TYPE_CHECKING:
    from ottla_spark.sql.catalog import Catalog
    from ottla_spark.sql.connect_rest import ConnectRest
    from ottla_spark.sql.interpreter import Interpreter
    from ottla_spark.sql.spark_thread import SparkThread
    from ottla_spark.sql.topics import Topics

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
MASTER_DEFAULT = "local[*]"
CONNECT_URL_DEFAULT = "http://127.0.0.1:8083"
CONNECT_URL_VARIABLE = "OTTLA_CONNECT_URL"
STANDARD_INPUT = "-"
EXIT_BY_SIGNAL = 128
EXIT_INTERRUPTED = EXIT_BY_SIGNAL + signal.SIGINT

Statements = Annotated[
    str | None, typer.Option("--execute", "-e", metavar="SQL", help="Carry out these statements, and end.")
]
File = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="FILE", help="Carry out the statements of a file; - is standard input."),
]
Stream = Annotated[bool, typer.Option("--stream", help="Every query emits changes, as with EMIT CHANGES.")]
FormatChoice = Annotated[ResultFormat, typer.Option("--format", help="json: one document per row.")]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
RowsMax = Annotated[
    int | None,
    typer.Option(min=1, show_default="1000 in tables, else all", help="Show so many rows of each result."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="SECONDS", help="Cancel a statement after so long; one that emits changes just ends."
    ),
]
Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="OTTLA_BOOTSTRAP", metavar="HOST:PORT[,…]", help="Brokers to connect to first."
    ),
]
ClientProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--property", "-X", metavar="KEY=VALUE", help="librdkafka setting, such as security.protocol=ssl; repeatable."
    ),
]
ConnectUrl = Annotated[
    str,
    typer.Option(
        "--connect",
        envvar=CONNECT_URL_VARIABLE,
        metavar="URL[,…]",
        help="Where a Connect worker listens, for pipelines; of several the first that is there.",
    ),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Where Spark runs: local[*] is here, spark://HOST:7077 a cluster.")
]
SparkSettings = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Spark setting, spark.…; repeatable.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What the command line says.

    Attributes:
        script: the statements; None for the prompt.
    """

    script: str | None
    bootstrap: str
    client_settings: Mapping[str, str]
    connect_url: str
    spark_settings: Mapping[str, str]
    stream: bool
    form: ResultFormat
    rows_max: int | None
    timeout_s: float | None


def register(app: typer.Typer) -> None:
    """Add the command to the top level."""
    app.command("sql")(sql)


def sql(
    *,
    execute: Statements = None,
    file: File = None,
    stream: Stream = False,
    form: FormatChoice = ResultFormat.TABLE,
    as_json: Json = False,
    max_rows: RowsMax = None,
    timeout: Timeout = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    connect: ConnectUrl = CONNECT_URL_DEFAULT,
    master: Master = MASTER_DEFAULT,
    conf: SparkSettings = None,
) -> None:
    """Query topics as tables, at a prompt or in scripts, on Apache Spark.

    [bold]Examples[/bold]

      ottla sql

      ottla sql -e "SELECT carrier, count(*) FROM flights GROUP BY carrier"

      ottla sql -e "SELECT * FROM flights EMIT CHANGES" --json | head

      ottla sql -f pipelines.sql --connect http://worker:8083

    Statements end with semicolons; HELP lists the prompt's own, everything else is Spark's SQL. Where a script fails,
    it ends with exit code 1. Ctrl-C cancels what runs, Ctrl-D leaves the prompt.
    """  # fmt: skip
    with _exit_codes():
        invocation = Invocation(
            script=_script(execute, file),
            bootstrap=bootstrap,
            client_settings=_assignments(properties, "--property"),
            connect_url=connect,
            spark_settings={"spark.master": master, **_assignments(conf, "--conf", prefix="spark.")},
            stream=stream,
            form=ResultFormat.JSON if as_json else form,
            rows_max=max_rows,
            timeout_s=timeout,
        )
        _run(invocation)


def _run(invocation: Invocation) -> None:
    # Spark's Python takes a second to import, which `ottla --help` is not to wait for.
    from ottla_spark.sql.connect_rest import ConnectRest  # noqa: PLC0415
    from ottla_spark.sql.java_output import kept_off_screen  # noqa: PLC0415
    from ottla_spark.sql.topics import Topics  # noqa: PLC0415

    # Py4J logs a stack trace, as the root logger, if Java ends while it is asked something: here, at the end.
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    topics = Topics(invocation.bootstrap, invocation.client_settings)
    connect = ConnectRest(invocation.connect_url)
    has_ended = False
    with _ended_in_order(), kept_off_screen() as output, session_folder() as folder:
        from ottla_spark.sql.spark_thread import SparkThread  # noqa: PLC0415

        spark = SparkThread({**_spark_defaults(folder), **invocation.spark_settings}, folder)
        try:
            if invocation.script is None or _needs_spark(invocation.script):
                spark.start()  # Java starts while Python imports the rest
            _work(invocation, topics, connect, spark)
            has_ended = True
        except SqlProblem as problem:
            said = output.last_lines() if spark.has_failed else ""
            raise (SqlProblem(f"{problem}\n{said}") if said else problem) from None
        finally:
            spark.close(in_order=has_ended)
            connect.close()


def _work(invocation: Invocation, topics: "Topics", connect: "ConnectRest", spark: "SparkThread") -> None:
    from ottla_spark.sql.catalog import Catalog  # noqa: PLC0415
    from ottla_spark.sql.deployment import Deployment  # noqa: PLC0415
    from ottla_spark.sql.interpreter import Interpreter, Manner  # noqa: PLC0415

    client_options = {f"kafka.{key}": value for key, value in invocation.client_settings.items()}
    catalog = Catalog(topics, {"kafka.bootstrap.servers": invocation.bootstrap, **client_options})
    manner = Manner(
        form=invocation.form, rows_max=invocation.rows_max, timeout_s=invocation.timeout_s, stream=invocation.stream,
        is_interactive=invocation.script is None,
    )  # fmt: skip
    interpreter = Interpreter(spark, catalog, Deployment(connect, invocation.spark_settings), manner)
    if invocation.script is not None:
        _run_script(invocation.script, interpreter.run)
    else:
        _prompt(invocation, catalog, spark, interpreter)


def _needs_spark(script: str) -> bool:
    """Return whether Spark carries out the first statement, so that it is of use to start it at once."""
    from ottla_spark.sql.grammar import parse  # noqa: PLC0415
    from ottla_spark.sql.statement_kinds import Deploy, ForSpark, Query  # noqa: PLC0415

    statements = split(script)
    try:
        return bool(statements) and isinstance(parse(statements[0].text), Query | ForSpark | Deploy)
    except SqlProblem:
        return False


def _spark_defaults(folder: Path) -> dict[str, str]:
    """Return settings that leave nothing behind but what statements write on purpose, and keep Java in its memory."""
    return {
        # A result of a task that is larger is an error in one line, and not the end of Java.
        "spark.driver.maxResultSize": "384m",
        # Results of slices go straight to the driver: the block manager loses them where memory is scarce.
        "spark.task.maxDirectResultSize": "64m",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        LOCAL_DIRECTORY_KEY: str(folder),
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    }


def _run_script(script: str, run: Callable[[str], bool]) -> None:
    """Carry out statements up to the first that fails."""
    found = split(script)
    for number, statement in enumerate(found, start=1):
        try:
            if not run(statement.text):
                return
        except SqlProblem as problem:
            where = f"statement {number} (line {statement.line}): " if len(found) > 1 else ""
            raise SqlProblem(f"{where}{problem}") from None


def _prompt(invocation: Invocation, catalog: "Catalog", spark: "SparkThread", interpreter: "Interpreter") -> None:
    from ottla_spark.sql.prompt import ask_and_run  # noqa: PLC0415

    spark.start()
    note(
        f"Ottla SQL: topics at {invocation.bootstrap}, "
        f"Spark at {invocation.spark_settings['spark.master']}, pipelines at {invocation.connect_url}. "
        "HELP; shows what there is, Ctrl-D leaves."
    )
    ask_and_run(catalog, interpreter.run)


def _script(execute: str | None, file: str | None) -> str | None:
    """Return the statements to carry out; None for the prompt.

    Raises:
        UsageProblem: there are two scripts.
        SqlProblem: the file cannot be read.
    """
    if execute is not None and file is not None:
        raise UsageProblem("--execute and --file cannot be used together")
    if execute is not None:
        return execute
    if file is None and sys.stdin.isatty():
        return None
    try:
        data = sys.stdin.buffer.read() if file in (None, STANDARD_INPUT) else Path(str(file)).read_bytes()
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise SqlProblem(f"{file or 'standard input'}: {reason}") from None


def _assignments(texts: Sequence[str] | None, option: str, *, prefix: str = "") -> dict[str, str]:
    """Return the pairs of repeated KEY=VALUE options.

    Raises:
        UsageProblem: one has no key or no equals sign, or its key does not begin with the prefix.
    """
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageProblem(f"{option} {text}: write it as KEY=VALUE")
        if not key.strip().startswith(prefix):
            raise UsageProblem(f"{option} {text}: its settings begin with {prefix}")
        pairs[key.strip()] = value.strip()
    return pairs


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the command as an error would: with Spark and temporary files gone."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(EXIT_BY_SIGNAL + number)

    heeded = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    former = {each: signal.signal(each, leave) for each in heeded}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn what ends the command into one line and an exit code."""
    try:
        yield
    except SqlProblem as problem:
        note(f"ottla: {problem}")
        raise typer.Exit(problem.exit_code) from None
    except (Interrupted, KeyboardInterrupt):
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except ReaderGone:
        # Python would flush standard output once more at exit, fail again and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
