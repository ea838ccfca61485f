"""What Spark calls its errors: the exceptions themselves are asked, so it does not matter how their texts are put."""

import json
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla_sdk import FatalError
from ottla_spark.error_links import ErrorNames
from ottla_spark.error_words import KNOWN_BY_CONDITION
from ottla_spark.messages import _chain, kind_of

CATALOGUE = "error-conditions.json"


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
    spark: SparkSession, query: str, condition: str, state: str
):
    with pytest.raises(PySparkException) as caught:
        spark.sql(query).collect()
    assert ErrorNames(condition, state) in [link.names for link in _chain(caught.value)]
    assert kind_of(caught.value) is FatalError


def test_an_exception_that_pyspark_hands_on_as_it_is_is_asked_as_well(spark: SparkSession, tmp_path: Path):
    (tmp_path / "part.parquet").write_bytes(b"no Parquet")
    with pytest.raises(Py4JJavaError) as caught:
        spark.read.schema("a int").parquet(str(tmp_path)).collect()
    assert ErrorNames("FAILED_READ_FILE.NO_HINT", "KD001") in [link.names for link in _chain(caught.value)]


def test_conditions_that_ottla_words_itself_are_conditions_of_this_spark():
    folder = Path(pyspark.__file__).parent
    known = set(json.loads((folder / "errors" / CATALOGUE).read_text()))
    (jar,) = (folder / "jars").glob("spark-common-utils_*.jar")
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(CATALOGUE):
                known |= set(json.loads(archive.read(name)))
    assert set(KNOWN_BY_CONDITION) <= known
