"""Records that are text or bytes: one column, nothing to take apart."""

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType, StringType


class BytesPart:
    """Keys or values as they are."""

    content_type: DataType = BinaryType()

    def parsed(self, raw: Column) -> Column:
        """Return them."""
        return raw

    def is_bad(self, raw: Column, parsed: Column) -> Column:
        """Return that none is bad."""
        return sf.lit(False)

    def problem(self, raw: Column, parsed: Column) -> Column:
        """Return nothing."""
        return sf.lit("")

    def content(self, parsed: Column) -> Column:
        """Return them."""
        return parsed


class StringPart:
    """Keys or values that are UTF-8 text."""

    content_type: DataType = StringType()

    def parsed(self, raw: Column) -> Column:
        """Return the text."""
        return raw.cast("string")

    def is_bad(self, raw: Column, parsed: Column) -> Column:
        """Return whether it is not UTF-8; missing text (null) is not bad."""
        return raw.isNotNull() & ~sf.is_valid_utf8(parsed)

    def problem(self, raw: Column, parsed: Column) -> Column:
        """Return what is wrong with a bad one."""
        return not_text(raw)

    def content(self, parsed: Column) -> Column:
        """Return the text."""
        return parsed


def not_text(raw: Column) -> Column:
    """Return the sentence about bytes that are no text."""
    return sf.concat(sf.lit("is not UTF-8 text; its first bytes are "), sf.hex(sf.substring(raw, 1, 16)))
