"""The SQL sink: records become rows."""
