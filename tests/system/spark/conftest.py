"""What all tests with Spark share."""

import os

from tests.support.reference.java_class_archive import options_for_spark

# Tests start many Java processes that live for seconds; those of connectors and commands inherit it.
# Derby, which a test writes to, would leave its log in the folder where tests are started.
os.environ.setdefault("JDK_JAVA_OPTIONS", f"{options_for_spark()} -Dderby.stream.error.field=java.lang.System.err")
