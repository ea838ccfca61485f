"""Which settings have a secret for a value, by their names. Pure.

Settings of clients, of plugins and of a command line reach those who show them without the model that knows what
each is. A name tells: Kafka's, librdkafka's and Ottla's own settings are named by a few words. Who adds a secret that
these words do not find learns of it by a test (`tests/unit/test_secret_settings.py`), which goes through all models.
"""

import re
from typing import Final

_SECRET: Final = re.compile(
    r"password|passphrase|secret|token|jaas|user\.info|otlp\.headers|bootstrap\.users|keytab\.content|credentials?$"
    r"|(?:^|\.)api[.-]?key(?:\.value)?$|(?:^|\.)ssl\.(?:keystore\.)?key$|key\.pem$",
    re.IGNORECASE,
)
_NO_SECRET: Final = re.compile(
    r"\.(?:url|location|endpoint|uri|file|path|class|ms|seconds|retriever|validator)$"
    r"|^sasl\.oauthbearer\.token\.endpoint",
    re.IGNORECASE,
)
"""Where a secret is, how long it holds, who fetches it."""


def is_secret_setting(key: str) -> bool:
    """Return whether a setting's value must not be kept or shown, unless it is a reference to a secret.

    Args:
        key: its name, with any prefix, such as ``sasl.password`` or ``producer.override.sasl.jaas.config``.
    """
    return _SECRET.search(key) is not None and _NO_SECRET.search(key) is None
