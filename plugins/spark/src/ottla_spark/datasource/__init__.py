"""The data source `ottla` for PySpark: topics as tables, in batches and streams, with the options of Spark's own."""
