"""The SQL source: rows become records."""
