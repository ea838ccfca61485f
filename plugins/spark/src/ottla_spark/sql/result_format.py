"""How results can be written."""

from enum import StrEnum


class ResultFormat(StrEnum):
    """What `--format` takes."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
