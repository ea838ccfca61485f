"""The predicates of Kafka Connect. Pure."""

from ottla_sdk import ConnectRecord, PluginConfig, Predicate, setting
from ottla_standard.java_regex import JavaPattern

_JAVA_PACKAGE = "org.apache.kafka.connect.transforms.predicates."


class TopicNameMatchesConfig(PluginConfig):
    """Settings of `TopicNameMatches`."""

    pattern: JavaPattern = setting("pattern", doc="A regular expression that a whole topic name must match.")


class TopicNameMatches(Predicate[TopicNameMatchesConfig]):
    """Is true for records of topics whose names match a pattern."""

    config_model = TopicNameMatchesConfig
    aliases = (_JAVA_PACKAGE + "TopicNameMatches",)

    def test(self, record: ConnectRecord) -> bool:
        """Return whether the topic's name matches."""
        return self.config.pattern.fullmatch(record.topic) is not None


class HasHeaderKeyConfig(PluginConfig):
    """Settings of `HasHeaderKey`."""

    name: str = setting("name", doc="The header's name.", min_length=1)


class HasHeaderKey(Predicate[HasHeaderKeyConfig]):
    """Is true for records that have a header of a name, whatever its value."""

    config_model = HasHeaderKeyConfig
    aliases = (_JAVA_PACKAGE + "HasHeaderKey",)

    def test(self, record: ConnectRecord) -> bool:
        """Return whether there is such a header."""
        return any(each.key == self.config.name for each in record.headers)


class RecordIsTombstone(Predicate[PluginConfig]):
    """Is true for records without a value."""

    aliases = (_JAVA_PACKAGE + "RecordIsTombstone",)

    def test(self, record: ConnectRecord) -> bool:
        """Return whether the value is null."""
        return record.value is None
