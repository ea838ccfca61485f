"""AboveLimit: whether a number is above a limit, so that a transform applies to some records only."""

from typing import Any

from ottla_sdk import ConnectRecord, DataError, PluginConfig, Predicate, setting


class AboveLimitConfig(PluginConfig):
    """Settings of AboveLimit."""

    field: str = setting("field", doc="The field of the value.", min_length=1)
    limit: float = setting("limit", doc="What the number has to be above.")


class AboveLimit(Predicate[AboveLimitConfig]):
    """Applies where a field of the value is a number above a limit; a field without a value is not."""

    config_model = AboveLimitConfig

    def test(self, record: ConnectRecord) -> bool:
        """Return whether the number is above the limit.

        Raises:
            DataError: the value has no such field, or it holds no number; `errors.tolerance` decides what follows.
        """
        value: Any = record.value
        if not isinstance(value, dict) or self.config.field not in value:
            raise DataError(f"the value has no field {self.config.field}")
        number = value[self.config.field]
        if number is None:
            return False
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise DataError(f"the field {self.config.field} holds {type(number).__name__}, not a number")
        return number > self.config.limit
