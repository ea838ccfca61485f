"""What all tests with Spark share."""

import os

# Tests start many Java processes that live for seconds: what the second compiler and a concurrent collector cost at
# the start never pays here. Those of connectors and commands inherit it.
# Derby, which a test writes to, would leave its log in the folder where tests are started.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.stream.error.field=java.lang.System.err",
)
