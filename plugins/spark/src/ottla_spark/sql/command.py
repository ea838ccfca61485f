"""`ottla sql`: the command line, and how it ends.

Exit codes are those of every `ottla` command: 0 done, 1 a statement failed (one line on standard error says why), 2
wrong usage, 130 interrupted. A reader that goes away (`ottla sql … | head`) is no error.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ottla_sdk.kafka.typed_secrets import warning_of_secrets
from ottla_spark.cluster.session_folder import session_folder
from ottla_spark.sql.invocation import Connections, Invocation
from ottla_spark.sql.result_format import ResultFormat
from ottla_spark.sql.screen import note, write_out
from ottla_spark.sql.sql_errors import Interrupted, ReaderGone, SqlProblem, UsageProblem
from ottla_spark.statement_splitting import split

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
SECONDS_PER_MINUTE = 60


def _warn_of_secrets(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None
) -> list[str] | None:
    """Warn of secrets that are typed as they are; return what was typed."""
    said = warning_of_secrets(option.opts[0], assignments or ())
    if said is not None and not context.resilient_parsing:  # a completion must print nothing
        note(f"ottla: warning: {said}")
    return assignments


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
        "--property",
        "-X",
        metavar="KEY=VALUE",
        callback=_warn_of_secrets,
        help="Setting of librdkafka or a Java client, such as security.protocol=ssl; repeatable.",
    ),
]
ConnectUrl = Annotated[
    str,
    typer.Option(
        "--connect-url",
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
KeepWarm = Annotated[
    float | None,
    typer.Option(
        min=0,
        envvar="OTTLA_SQL_KEEP_WARM",
        metavar="MINUTES",
        help="Keep Spark running for so long in the background, for later commands with the same options.",
    ),
]
ListWarm = Annotated[bool, typer.Option("--list-warm", help="List the sessions that are kept warm, and end.")]
StopWarm = Annotated[bool, typer.Option("--stop-warm", help="End the sessions that are kept warm.")]


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
    keep_warm: KeepWarm = None,
    list_warm: ListWarm = False,
    stop_warm: StopWarm = False,
) -> None:
    """Query topics as tables, at a prompt or in scripts, on Apache Spark.

    [bold]Examples[/bold]

      ottla sql

      ottla sql -e "SELECT carrier, count(*) FROM flights GROUP BY carrier"

      ottla sql -e "SELECT * FROM flights EMIT CHANGES" --json | head

      ottla sql -f pipelines.sql --connect-url http://worker:8083

      ottla sql --keep-warm 30 -e "SELECT count(*) FROM flights"

    Statements end with semicolons; HELP lists the prompt's own, everything else is Spark's SQL. Where a script fails,
    it ends with exit code 1. Ctrl-C cancels what runs, Ctrl-D leaves the prompt.
    """  # fmt: skip
    with _exit_codes():
        if list_warm or stop_warm:
            _warm_sessions(stops=stop_warm, as_json=as_json)
            return
        connections = Connections(
            bootstrap=bootstrap,
            client_settings=_client_settings(bootstrap, properties),
            connect_url=connect,
            spark_settings={"spark.master": master, **_assignments(conf, "--conf", prefix="spark.")},
        )
        invocation = Invocation(
            script=_script(execute, file),
            connections=connections,
            stream=stream,
            form=ResultFormat.JSON if as_json else form,
            rows_max=max_rows,
            timeout_s=timeout,
        )
        if keep_warm and invocation.script is not None and _needs_spark(invocation.script):
            code = _run_warm(invocation, keep_warm * SECONDS_PER_MINUTE)
            if code is not None:
                raise typer.Exit(code)
        _run(invocation)


def _run_warm(invocation: Invocation, keep_s: float) -> int | None:
    """Carry out a script in a session that stays; return its exit code, or None if it has to be done here."""
    from ottla_spark.sql.warm_sessions import run_warm  # noqa: PLC0415

    return run_warm(invocation, keep_s)


def _warm_sessions(*, stops: bool, as_json: bool) -> None:
    from ottla_spark.sql.warm_sessions import listed, stop_all  # noqa: PLC0415

    if stops:
        count = stop_all(os.environ)
        note(f"ended {count} warm {'session' if count == 1 else 'sessions'}")
        return
    for each in listed(os.environ):
        if as_json:
            write_out(json.dumps(each) + "\n")
        else:
            ends = "" if each["ends_in_s"] is None else f", ends in {each['ends_in_s']} s"
            where = f"topics at {each['brokers']}, Spark at {each['spark']}"
            write_out(f"process {each['pid']}: {each['state']}{ends}; {where}\n")


def _run(invocation: Invocation) -> None:
    # Spark's Python takes a second to import, which `ottla --help` is not to wait for.
    from ottla_spark.sql.connect_rest import ConnectRest  # noqa: PLC0415
    from ottla_spark.sql.java_output import kept_off_screen  # noqa: PLC0415
    from ottla_spark.sql.read_names import may_have_catalogue  # noqa: PLC0415
    from ottla_spark.sql.topics import Topics  # noqa: PLC0415

    # Py4J logs a stack trace, as the root logger, if Java ends while it is asked something: here, at the end.
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    connections = invocation.connections
    topics = Topics(connections.bootstrap, connections.client_settings)
    connect = ConnectRest(connections.connect_url)
    if invocation.script is not None and not may_have_catalogue(connections.spark_settings, os.environ):
        topics.check_names(_first_names(invocation.script))
    has_ended = False
    with _ended_in_order(), kept_off_screen() as output, session_folder() as folder:
        from ottla_spark.sql.spark_thread import SparkThread, spark_defaults  # noqa: PLC0415

        spark = SparkThread({**spark_defaults(folder), **connections.spark_settings}, folder)
        try:
            if invocation.script is None or _needs_spark(invocation.script, statements_max=1):
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
    from ottla_spark.sql.scripts import catalog_of, interpreter_of, run_script  # noqa: PLC0415

    catalog = catalog_of(invocation.connections, topics)
    interpreter = interpreter_of(invocation, catalog, connect, spark)
    if invocation.script is not None:
        run_script(invocation.script, interpreter.run)
    else:
        _prompt(invocation.connections, catalog, spark, interpreter)


def _first_names(script: str) -> list[str]:
    """Return the names that a script of one statement reads, before which nothing but topics can be there."""
    from ottla_spark.sql.grammar import parse  # noqa: PLC0415
    from ottla_spark.sql.read_names import read_names  # noqa: PLC0415
    from ottla_spark.sql.statement_kinds import Deploy, ForSpark, Query  # noqa: PLC0415

    statements = split(script)
    if len(statements) != 1:
        return []
    try:
        parsed = parse(statements[0].text)
    except SqlProblem:
        return []
    match parsed:
        case Query(text) | ForSpark(text):
            return read_names(text)
        case Deploy():
            return read_names(parsed.query.text)
    return []


def _needs_spark(script: str, statements_max: int | None = None) -> bool:
    """Return whether Spark carries out one of the statements, or of the first so many."""
    from ottla_spark.sql.grammar import parse  # noqa: PLC0415
    from ottla_spark.sql.statement_kinds import Deploy, ForSpark, Query  # noqa: PLC0415

    try:
        parsed = [parse(each.text) for each in split(script)[:statements_max]]
    except SqlProblem:
        return False
    return any(isinstance(each, Query | ForSpark | Deploy) for each in parsed)


def _prompt(connections: Connections, catalog: "Catalog", spark: "SparkThread", interpreter: "Interpreter") -> None:
    from ottla_spark.sql.prompt import ask_and_run  # noqa: PLC0415

    spark.start()
    note(
        f"Ottla SQL: topics at {connections.bootstrap}, "
        f"Spark at {connections.spark_settings['spark.master']}, pipelines at {connections.connect_url}. "
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


def _client_settings(bootstrap: str, properties: Sequence[str] | None) -> dict[str, str]:
    """Return what was typed, and what the profile or the local cluster says besides.

    Raises:
        UsageProblem: it is no KEY=VALUE, or refers to what is not there.
    """
    from ottla_sdk.kafka.known_settings import known_settings  # noqa: PLC0415 - not for help
    from ottla_sdk.local_references import BadReference, resolved  # noqa: PLC0415

    typed = _assignments(properties, "--property")
    try:
        known = known_settings(bootstrap, os.environ)
        return {**known, **{key: resolved(value, os.environ) for key, value in typed.items()}}
    except BadReference as problem:
        raise UsageProblem(f"client settings: {problem}") from None


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
