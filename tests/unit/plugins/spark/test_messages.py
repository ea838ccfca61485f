"""What users are told of Spark's errors.

`spark_errors.json` has errors of Spark 4.3 as they were met: class and message of each exception of the chain, with
most of the stack frames left out.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla_sdk import ConnectError, FatalError, InvalidConfig, Problem, RetriableError
from ottla_spark.cluster.master import MasterUnreachable
from ottla_spark.error_links import Link, links
from ottla_spark.error_words import kind_of_chain, worded
from ottla_spark.messages import in_plain_words, kind_of

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("spark_errors.json").read_text())
NOISE = re.compile(
    r"SQLSTATE|Traceback|\bat (?:org|java|py4j)\.|== |Logical Plan|\+- |^\[|"
    r"org\.apache\.spark\.\S*(?:Exception|Error)"
)


def chain_of(case: dict[str, Any]) -> list[Link]:
    return [link for kind, text in case["exceptions"] for link in links(kind, text)]


def is_of_java(case: dict[str, Any]) -> bool:
    return not case["exceptions"][0][0].startswith("pyspark.")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_an_error_is_told_in_the_words_that_a_person_needs(case: dict[str, Any]):
    assert worded(chain_of(case)) == case["words"]
    assert not NOISE.search(case["words"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_an_error_is_of_the_kind_that_says_whether_trying_again_may_help(case: dict[str, Any]):
    assert kind_of_chain(chain_of(case)).__name__ == case["kind"]


@pytest.mark.parametrize("case", [case for case in CASES if is_of_java(case)], ids=lambda case: case["what"])
def test_the_text_that_java_prints_says_the_same_as_the_exceptions_themselves(case: dict[str, Any]):
    printed = "\nCaused by: ".join(
        f"{kind}: {text}\n\tat org.apache.spark.Some.where(Some.scala:12)\n\t... 23 more"
        for kind, text in case["exceptions"]
    )
    raised = f'{"Traceback (most recent call last):"}\n  File "/jobs/delays.py", line 3, in main\n'
    raised += f"py4j.protocol.Py4JJavaError: An error occurred while calling o12.save.\n: {printed}\n"

    assert worded(list(links("py4j.Py4JException", raised))) == case["words"]


def test_a_lost_executor_is_named_with_the_reason():
    text = (
        "Job aborted due to stage failure: Task 0 in stage 4.0 failed 4 times, most recent failure: Lost task 0.3 "
        "in stage 4.0 (TID 9) (10.0.0.7 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the "
        "running tasks) Reason: Command exited with code 137\nDriver stacktrace:\n"
        "\tat org.apache.spark.Some.where(Some.scala:1)"
    )
    chain = list(links("org.apache.spark.SparkException", text))

    assert worded(chain) == "executor 3 was lost: Command exited with code 137"
    assert kind_of_chain(chain) is ConnectError


def test_the_last_of_ottlas_errors_in_a_traceback_is_told_even_if_spark_raised_another_one_after_it():
    traceback = (
        'Traceback (most recent call last):\n  File "/jobs/reader.py", line 3, in read\n    raise\n'
        "ottla_sdk.errors.FatalError: there is no topic flights\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/usr/lib/python3.11/pyspark.zip/worker.py", line 9, in main\n'
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [SOME_ERROR] it failed\n"
    )
    chain = list(links("org.apache.spark.SparkException", traceback))

    assert worded(chain) == "there is no topic flights"
    assert kind_of_chain(chain) is FatalError


def test_a_message_of_ottlas_keeps_its_lines_and_its_brackets():
    text = 'Traceback (most recent call last):\n  File "x", line 1, in y\nottla_sdk.errors.DataError: [a] b;\n  c: d'

    assert worded(list(links("org.apache.spark.SparkException", text))) == "[a] b;\n  c: d"


def test_a_traceback_that_was_cut_off_still_says_something():
    text = 'Traceback (most recent call last):\n  File "/jobs/delays.py", line 3, in main\n    raise Some'

    assert worded(list(links("org.apache.spark.SparkException", text)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FatalError("a"), FatalError),
        (InvalidConfig([Problem("topic", "is empty")]), FatalError),
        (MasterUnreachable("a"), RetriableError),
        (ConnectError("a"), ConnectError),
        (ValueError("a"), FatalError),
        (KeyError("a"), FatalError),
        (OSError("a"), ConnectError),
        (TimeoutError("a"), ConnectError),
        (MemoryError(), ConnectError),
    ],
    ids=repr,
)
def test_errors_of_the_driver_itself_are_judged_by_their_class(error: Exception, kind: type[ConnectError]):
    assert kind_of(error) is kind


def test_errors_of_the_driver_itself_are_told_as_they_are():
    assert in_plain_words(FatalError("there is no topic flights")) == "there is no topic flights"
    assert in_plain_words(ValueError("not a number")) == "ValueError: not a number"
    assert in_plain_words(TimeoutError()) == "TimeoutError"
