"""What Spark calls its errors: the exceptions themselves are asked, so it does not matter how their text is put."""

import json
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from pyspark.sql import SparkSession

from ottla_sdk import FatalError
from ottla_spark.error_words import KNOWN_BY_CONDITION
from ottla_spark.messages import _chain, in_plain_words, kind_of

CATALOGUE = "error-conditions.json"


@pytest.fixture
def laconic_spark(spark: SparkSession):
    """A session whose errors are JSON with the names in other places."""
    spark.conf.set("spark.sql.error.messageFormat", "MINIMAL")
    yield spark
    spark.conf.unset("spark.sql.error.messageFormat")


@pytest.mark.parametrize(
    ("query", "condition", "state"),
    [
        ("SELECT nothing", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", "42703"),
        ("SELECT CAST('abc' AS INT)", "CAST_INVALID_INPUT", "22018"),
        ("SELECT 1 / 0", "DIVIDE_BY_ZERO", "22012"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR", "42601"),
    ],
)
def test_names_come_from_the_exception_and_not_from_its_text(
    laconic_spark: SparkSession, query: str, condition: str, state: str
):
    with pytest.raises(pyspark.errors.PySparkException) as caught:
        laconic_spark.sql(query).collect()
    assert (condition, state) in [(link.condition, link.sql_state) for link in _chain(caught.value)]
    assert kind_of(caught.value) is FatalError
    assert in_plain_words(caught.value)


def test_conditions_that_ottla_words_itself_are_conditions_of_this_spark():
    folder = Path(pyspark.__file__).parent
    known = set(json.loads((folder / "errors" / CATALOGUE).read_text()))
    (jar,) = (folder / "jars").glob("spark-common-utils_*.jar")
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(CATALOGUE):
                known |= set(json.loads(archive.read(name)))
    assert set(KNOWN_BY_CONDITION) <= known
