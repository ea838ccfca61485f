"""JSON to columns and back with Spark's own functions: no row goes through Python.

What fits is Spark's decision (`from_json`). A field that is missing is null, one that no column is declared for is
ignored, names are told apart by case. A STRING takes anything, objects as their text; no other type takes text that
would have to be converted, but DECIMAL, and FLOAT and DOUBLE for "NaN" and "Infinity". BINARY is base64. A TIMESTAMP
is ISO 8601 with `T` or a space, and a zone or the session's, or a number of whole seconds since 1970 (declare BIGINT
for milliseconds, and use `timestamp_millis`). A number too large for a DOUBLE is infinite, as Spark has it; one too
large for any other type does not fit. What follows the object's end is not looked at.
"""

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructType, VarcharType

from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.plain_format import not_text

CORRUPT = "__corrupt"
"""Where from_json puts the text of a record that does not fit; a column's name cannot begin with `_`."""

NULL = "null"
SHOWN_CHARACTERS_MAX = 120

WRITE_OPTIONS = {
    # A reader of a topic sees in every record which fields there are.
    "ignoreNullFields": "false",
    # Spark's own default stops at milliseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


class JsonPart:
    """Keys or values that are JSON objects.

    Args:
        columns: what is taken from them.
    """

    def __init__(self, columns: StructType) -> None:
        self.content_type: DataType = columns
        self._columns = columns

    def parsed(self, raw: Column) -> Column:
        """Return a struct of the columns, and of the record's text if it does not fit."""
        declared = StructType([*self._columns.fields]).add(CORRUPT, StringType())
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        parsed = sf.from_json(raw.cast("string"), declared, options)
        # A condition that is always true, and that Spark takes for not deterministic: so it does not copy the parsing
        # into every filter on one of the columns, and each record is parsed once.
        return sf.when(sf.spark_partition_id() >= 0, parsed)

    def is_bad(self, raw: Column, parsed: Column) -> Column:
        """Return whether a record is no JSON object, or has a field of another type.

        A missing one (null) is not bad, nor is one that is the JSON `null`: its columns are null.
        """
        text = raw.cast("string")
        fits = parsed.isNotNull() & parsed.getField(CORRUPT).isNull() & sf.is_valid_utf8(text)
        return raw.isNotNull() & ~fits & (sf.trim(text) != NULL)

    def problem(self, raw: Column, parsed: Column) -> Column:
        """Return what is wrong with a bad one."""
        text = sf.make_valid_utf8(raw.cast("string"))
        # The type of what is there: OBJECT<…>, ARRAY<…>, STRING; null if it is not JSON at all.
        found = sf.schema_of_variant(sf.try_parse_json(text))
        return (
            sf.when(~sf.is_valid_utf8(raw.cast("string")), not_text(raw))
            .when(sf.trim(text) == "", sf.lit("is empty, where JSON is expected"))
            .when(found.isNull(), sf.concat(sf.lit("is malformed JSON: "), _shown(text)))
            .when(~found.startswith("OBJECT"), sf.concat(sf.lit("is JSON, but no object: "), _shown(text)))
            .otherwise(self._mismatch(text, parsed))
        )

    def content(self, parsed: Column) -> Column:
        """Return the struct of the columns."""
        return sf.when(parsed.getField(CORRUPT).isNull(), parsed.dropFields(CORRUPT))

    def _mismatch(self, text: Column, parsed: Column) -> Column:
        """Return the sentence about the first column that a record has but that could not be read."""
        fields = sf.from_json(text, MapType(StringType(), StringType()))
        understood = sf.json_object_keys(sf.to_json(parsed.dropFields(CORRUPT)))
        names = sf.array(*(sf.lit(each.name) for each in self._columns))
        wrong = sf.try_element_at(
            sf.filter(names, lambda name: fields[name].isNotNull() & ~sf.array_contains(understood, name)), sf.lit(1)
        )
        types = sf.create_map(
            *(sf.lit(text) for each in self._columns for text in (each.name, each.dataType.simpleString().upper()))
        )
        nested = ", ".join(
            each.name for each in self._columns if isinstance(each.dataType, StructType | ArrayType | MapType)
        )
        named = sf.concat(
            sf.lit("has in the column "),
            wrong,
            sf.lit(" what is no "),
            types[wrong],
            sf.lit(": "),
            _shown(fields[wrong]),
        )
        return sf.when(wrong.isNotNull(), named).otherwise(
            sf.concat(sf.lit(f"has a value of another type within one of the columns {nested}: "), _shown(text))
        )


def columns_of(spark: SparkSession, ddl: str) -> StructType:
    """Return the columns that a text declares.

    Args:
        spark: the session whose parser reads it.
        ddl: such as ``carrier STRING, dep_delay DOUBLE``.

    Raises:
        UnusableFormat: it cannot be parsed (the message has Spark's word for where), or declares no columns that JSON
            could fill.
    """
    try:
        columns = StructType.fromDDL(ddl)
    except PySparkException as error:
        said = (str(error).strip()).partition("\n\n")[0]
        raise UnusableFormat(f"the schema {ddl!r} cannot be parsed: {said}") from None
    if not isinstance(columns, StructType) or not columns.fields:
        raise UnusableFormat(f"the schema {ddl!r} declares no columns; one is `carrier STRING, dep_delay DOUBLE`")
    for each in columns:
        if isinstance(each.dataType, CharType | VarcharType):
            raise UnusableFormat(f"the schema {ddl!r} has the column {each.name} of a type JSON lacks: write STRING")
    return columns


def as_json(content: Column, content_type: DataType) -> Column:
    """Return JSON text; of what is no struct, array or map, a JSON string, number or truth value."""
    if isinstance(content_type, StructType | ArrayType | MapType):
        return sf.to_json(content, WRITE_OPTIONS)
    text = sf.to_json(sf.array(content), WRITE_OPTIONS)
    return sf.when(content.isNotNull(), sf.substring(text, sf.lit(2), sf.length(text) - 2))


def _shown(text: Column) -> Column:
    shortened = sf.concat(sf.substring(text, 1, SHOWN_CHARACTERS_MAX), sf.lit("…"))
    return sf.when(sf.length(text) > SHOWN_CHARACTERS_MAX, shortened).otherwise(text)
