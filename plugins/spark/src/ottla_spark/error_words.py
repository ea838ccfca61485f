"""What to tell a person of a chain of errors, and what it is to the runtime.

Of a chain one link is told: the first with a Spark error condition of its own, an error of Python code, or else the
innermost that says something. Its text loses what only Spark's developers can read. A few failures that Spark words
badly are in the tables `KNOWN_BY_CONDITION` and, for those of Java, Hadoop and old parts of Spark, `KNOWN_BY_TEXT`.
"""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ottla_sdk import ConnectError, DataError, FatalError, RetriableError
from ottla_spark.error_links import CONDITION, SQLSTATE, Link, builtin_error, simple_name

# Classes of what lies in the query, its settings or its data, and so comes again: Spark's error-states.json.
FINAL_SQL_STATES = frozenset(
    {"07", "0A", "21", "22", "23", "24", "2B", "3F", "42", "46", "51", "54", "55", "56", "F0", "P0"}
)
FINAL_CONDITIONS = re.compile(
    r"STATE_STORE_\w*SCHEMA|STATE_STORE_\w*FORMAT_VALIDATION|MALFORMED_LOG_FILE|INVALID_LOG_VERSION|STDS_|"
    r"FAILED_READ_FILE\.PARQUET|MALFORMED_CSV|INCOMPATIBLE_|CONFLICTING_|UNEXPECTED_|PLAN_VALIDATION"
)
FINAL_JAVA_ERRORS = re.compile(
    r"(Analysis|Parse|IllegalArgument|UnsupportedOperation|ClassNotFound|NumberFormat|Arithmetic|DateTime|"
    r"ParentNotDirectory|FileAlreadyExists)Exception$"
)
FINAL_PYTHON_ERRORS = (
    *(TypeError, ValueError, LookupError, NameError, AttributeError, ImportError, SyntaxError),
    *(ArithmeticError, AssertionError, NotImplementedError),
)
WRAPPER_SQL_STATES = frozenset({"38", "39"})
WRAPPER_CONDITIONS = frozenset({"STREAM_FAILED", "TASK_WRITE_FAILED", "FAILED_READ_FILE.NO_HINT"})

CONTEXT = re.compile(r"(?P<doing>reading file|writing rows to) (?P<path>\S+?)\.?(?:\s|$)")
PARSED_SQL = re.compile(r"\n\n== SQL[^\n]*==\n.*", re.DOTALL)
EVALUATED_SQL = re.compile(
    r"\.?(?:\s*SQLSTATE: \w{5})?\s*== SQL[^\n]*\(line (?P<line>\d+), position (?P<column>\d+)\) ==\n"
    r"(?P<lines>[^\n]*\n[ ]*\^+)?.*",
    re.DOTALL,
)
DATA_FRAME = re.compile(r"\s*== DataFrame ==\n.*", re.DOTALL)
PLAN = re.compile(r";\n['~!]*[A-Z]\w*(?:[ (\[\n].*)?$", re.DOTALL)
POSITION = re.compile(r";? \(?line (?P<line>\d+),? pos (?P<zero_based>\d+)\)?$")
JAVA_CLASS = re.compile(r"\b(?:org|java|javax|scala|com|io|py4j)\.(?:[\w$]+\.)+[A-Z][\w$]*: ")
PYTHON_CLASS = re.compile(r"\bpyspark\.(?:\w+\.)+[A-Z]\w*: ")
ADVICE = re.compile(
    r" Verify the spelling and correctness of the schema and catalog\..*"
    r"| on search path \[[^\]]*\]"
    r"|\s*If you want to force running the query without schema validation.*"
    r"| If necessary set \S+ to \S+ to bypass this error\.?",
    re.DOTALL,
)
STRUCT = re.compile(r"StructType\((?P<fields>[^()]*(?:\([^()]*\)[^()]*)*)\)")
FIELD = re.compile(r"StructField\((?P<name>[^,()]+),(?P<type>\w+?)(?:Type)?,(?:true|false)\)")


@dataclass(frozen=True, slots=True)
class Known:
    """A failure that Ottla words itself.

    Attributes:
        pattern: searched for in "class: message".
        words: what to say, as a template for `re.Match.expand`; ``{}`` is what Spark says, without noise.
        kind: what it is to the runtime.
    """

    pattern: re.Pattern[str]
    words: str
    kind: type[ConnectError]


ANOTHER_CHECKPOINT = "give this query a checkpoint folder of its own, or delete that one to begin anew"

_ANY = re.compile("")  # the condition says it all
_STATE_SCHEMAS = re.compile(
    r"Existing (?P<part>key|value)_schema=(?P<had>.+?) and new \w+=(?P<has>[^\n]+?)\.\n", re.DOTALL
)
_OTHER_STATE = Known(
    _STATE_SCHEMAS,
    r"the checkpoint is that of another query: the \g<part> of its state is \g<had>, this query's is \g<has>; "
    + ANOTHER_CHECKPOINT,
    kind=FatalError,
)
_DAMAGED_CHECKPOINT = Known(
    _ANY,
    "the checkpoint is damaged or was written by another version of Spark: {}; " + ANOTHER_CHECKPOINT,
    kind=FatalError,
)

KNOWN_BY_CONDITION = {
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": _OTHER_STATE,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": _OTHER_STATE,
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY": Known(
        _ANY,
        "the checkpoint is that of another query, or incomplete: it has no state, which this query needs; "
        + ANOTHER_CHECKPOINT,
        kind=FatalError,
    ),
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": Known(
        _ANY,
        "the checkpoint is that of another query, whose aggregations and joins are not those of this one; "
        + ANOTHER_CHECKPOINT,
        kind=FatalError,
    ),
    "MALFORMED_LOG_FILE": _DAMAGED_CHECKPOINT,
    "INVALID_LOG_VERSION": _DAMAGED_CHECKPOINT,
    "CONCURRENT_STREAM_LOG_UPDATE": Known(
        _ANY, "another query writes to the same checkpoint; each needs a folder of its own", kind=ConnectError
    ),
    "PYTHON_VERSION_MISMATCH": Known(
        _ANY,
        "{}; set spark.pyspark.python to a Python of the driver's version that all machines have",
        kind=FatalError,
    ),
    "JAVA_GATEWAY_EXITED": Known(
        _ANY, "Spark's Java process ended while it started; what it printed before is in the log", kind=ConnectError
    ),
    "KAFKA_DATA_SOURCE_NOT_ENABLED": Known(
        _ANY,
        "Spark's own Kafka source is not among its jars; add org.apache.spark:spark-sql-kafka-0-10 to "
        'spark.jars.packages, or use Ottla\'s: format("ottla")',
        kind=FatalError,
    ),
}
"""By Spark's error condition, without the part behind its dot."""

KNOWN_BY_TEXT = (
    Known(
        re.compile(
            r"There are \[(?P<had>\d+)\] sources in the checkpoint offsets and now there are \[(?P<has>\d+)\]"
        ),
        r"the checkpoint is that of another query: inputs there \g<had>, here \g<has>; " + ANOTHER_CHECKPOINT,
        kind=FatalError,
    ),
    Known(re.compile(r"No space left on device"), "the disk is full", kind=RetriableError),
    Known(re.compile(r"Disk quota exceeded"), "the disk quota is used up", kind=RetriableError),
    Known(
        re.compile(r"(?:Mkdirs failed to create |mkdir of )(?P<path>\S+?)(?:/_temporary\S*)?(?:\s|$)"),
        r"the folder \g<path> cannot be created; may this user write there?",
        kind=FatalError,
    ),
    Known(re.compile(r"Permission denied|AccessDenied|AccessControlException"), "no permission: {}", kind=FatalError),
    Known(re.compile(r"Read-only file system"), "{}", kind=FatalError),
    Known(
        re.compile(r"Python worker exited unexpectedly|Python worker failed to connect back"),
        "a Python worker of Spark crashed or was killed, perhaps because the machine ran out of memory",
        kind=ConnectError,
    ),
    Known(
        re.compile(r'Cannot run program "(?P<program>[^"]+)".*No such file'),
        r"there is no \g<program> on a machine of the cluster; set spark.pyspark.python to a Python of the driver's "
        "version that all of them have",
        kind=FatalError,
    ),
    Known(
        re.compile(r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY"),
        "Spark's Java process ran out of memory ({}); raise spark.driver.memory or spark.executor.memory",
        kind=ConnectError,
    ),
    Known(
        re.compile(r"ExecutorLostFailure \(executor (?P<id>\S+) .*?Reason: (?P<reason>.*)", re.DOTALL),
        r"executor \g<id> was lost: \g<reason>",
        kind=ConnectError,
    ),
    Known(
        re.compile(r"All masters are unresponsive"),
        "Spark was stopped: the connection to the cluster's master was lost",
        kind=RetriableError,
    ),
    Known(
        re.compile(r"Cannot call methods on a stopped SparkContext|SparkContext was shut down"),
        "Spark was stopped: the connection to the cluster's master was lost, or the application was ended there",
        kind=ConnectError,
    ),
    Known(
        re.compile(r"Service 'sparkDriver' (?:failed after|could not bind)"),
        "the driver cannot listen at its address: set spark.driver.bindAddress to one of this machine's",
        kind=FatalError,
    ),
    Known(
        re.compile(r"Class (?P<class>\S*\.fs\.\S+) not found|No FileSystem for scheme \"(?P<scheme>[^\"]+)\""),
        r"Spark cannot read or write there: the file system's class \g<class>\g<scheme> is not among its jars; name "
        "them in spark.jars.packages or spark.jars",
        kind=FatalError,
    ),
    Known(
        re.compile(r"SQLException: No suitable driver"),
        "there is no JDBC driver for this URL among Spark's jars; name its jar in spark.jars or spark.jars.packages",
        kind=FatalError,
    ),
    Known(re.compile(r"MemoryError"), "a Python worker of Spark ran out of memory", kind=ConnectError),
)


def telling(chain: Sequence[Link]) -> Link:
    """Return the link of a chain that says what went wrong."""
    for link in chain:
        if not _is_wrapper(link) and (link.is_python or link.condition):
            return link
    saying = [link for link in chain if link.text and not _is_wrapper(link)] or list(chain)
    root = saying[-1]
    # An inner message that an outer one contains says less: `error=2, No such file` in `Cannot run …: error=2, …`.
    return next((link for link in saying if root.text in link.text and not link.text.startswith(root.kind)), root)


def worded(chain: Sequence[Link]) -> str:
    """Return what a person needs to know of a chain of errors."""
    link = telling(chain)
    if link.is_ours:
        return link.text
    words = _known_words(link) or _spark_words(link)
    return words + _value_at_fault(chain, words) + _file_at_fault(chain, words)


def kind_of_chain(chain: Sequence[Link]) -> type[ConnectError]:
    """Return what an error is to the runtime.

    It is a `FatalError` if the same would happen again, however often one tried, a `RetriableError` if something is
    away or full that may be back or empty tomorrow, and a plain `ConnectError` if nobody knows.
    """
    link = telling(chain)
    if own := _own_class(link):
        return kind_of_class(own)
    if found := _known(link):
        return found[0].kind
    if error := builtin_error(link.kind):
        is_final = issubclass(error, FINAL_PYTHON_ERRORS)
    elif FINAL_CONDITIONS.match(link.condition) or link.sql_state[:2] in FINAL_SQL_STATES:
        is_final = True
    else:
        is_final = not link.sql_state and FINAL_JAVA_ERRORS.search(link.kind) is not None
    return FatalError if is_final else ConnectError


def kind_of_class(error: type[BaseException]) -> type[ConnectError]:
    """Return what errors of a class are to the runtime."""
    if issubclass(error, (FatalError, DataError)):
        return FatalError
    return RetriableError if issubclass(error, RetriableError) else ConnectError


def without_noise(text: str) -> str:
    """Return one of Spark's messages on a line: without its condition, SQLSTATE, query text, plan and class names."""
    text = EVALUATED_SQL.sub(_evaluated, CONDITION.sub("", text, count=1))
    for dump in (PARSED_SQL, DATA_FRAME, PLAN, SQLSTATE):
        text = dump.sub("", text)
    text, position = _split_position(text.strip())
    for noise in (ADVICE, JAVA_CLASS, PYTHON_CLASS):
        text = noise.sub("", text)
    text = " ".join(text.split()).rstrip(";").removesuffix(".").replace(". (line ", " (line ")
    return STRUCT.sub(_columns, text) + position


def _split_position(text: str) -> tuple[str, str]:
    """Take the position in a query off a message's end; Spark counts columns from 0, editors from 1."""
    found = POSITION.search(text)
    if found is None:
        return text, ""
    return text[: found.start()], f" (line {found['line']}, column {int(found['zero_based']) + 1})"


def _columns(struct: re.Match[str]) -> str:
    """Return a schema as people write it: `(carrier string, hour timestamp)`."""
    return "(" + FIELD.sub(_column, struct["fields"]).replace(",", ", ") + ")"


def _column(field: re.Match[str]) -> str:
    return f"{field['name']} {field['type'].lower()}"


def _known(link: Link) -> tuple[Known, re.Match[str]] | None:
    by_condition = KNOWN_BY_CONDITION.get(link.condition.partition(".")[0])
    whole = f"{link.kind}: {link.text}"
    for known in (*filter(None, [by_condition]), *KNOWN_BY_TEXT):
        if found := known.pattern.search(whole):
            return known, found
    return None


def _known_words(link: Link) -> str:
    if (match := _known(link)) is None:
        return ""
    known, found = match
    words = found.expand(known.words).replace("{}", without_noise(link.text))
    return STRUCT.sub(_columns, " ".join(words.split()))


def _own_class(link: Link) -> type[BaseException] | None:
    """Return the class of an error that Ottla's code raised in a Python worker, which only its name is left of."""
    if not link.is_ours:
        return None
    module, _, _ = link.kind.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), simple_name(link.kind), None)
    except ImportError:
        return None
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _spark_words(link: Link) -> str:
    words = without_noise(link.text)
    if not link.is_python:
        return words or simple_name(link.kind)
    name = "" if link.kind.startswith("pyspark.") else simple_name(link.kind)
    place = f" ({link.place})" if link.place else ""
    return (f"{name}: {words}" if words and name else words or name) + place


def _value_at_fault(chain: Sequence[Link], words: str) -> str:
    """Return in brackets the text that could not be read, where only the innermost error has it."""
    root = chain[-1]
    return f" ({root.text})" if root.kind == "java.lang.NumberFormatException" and root.text not in words else ""


def _file_at_fault(chain: Sequence[Link], words: str) -> str:
    """Return in brackets which file or table was read or written, if an outer error says so."""
    for link in chain:
        found = CONTEXT.search(link.text)
        if found and found["path"].rpartition("/")[2] not in words:
            return f" (while {found['doing']} {found['path']})"
    return ""


def _is_wrapper(link: Link) -> bool:
    return link.is_wrapper or link.condition in WRAPPER_CONDITIONS or link.sql_state[:2] in WRAPPER_SQL_STATES


def _evaluated(found: re.Match[str]) -> str:
    """Return where in a query something failed to be evaluated, with the fragment that Spark underlines."""
    fragment = ""
    if found["lines"]:
        source, underline = found["lines"].split("\n")
        start = underline.index("^")
        fragment = f": {source[start : len(underline)]}"
    return f" (line {found['line']}, column {found['column']}{fragment})"
