"""What `HELP` shows."""

HELP = """\
Topics are tables: a statement ends with a semicolon, names with dots or dashes stand in backquotes.

  SELECT carrier, count(*) FROM flights GROUP BY carrier;
                                     over what is there now
  SELECT * FROM `daily-flights` EMIT CHANGES;
                                     over what comes, too, until Ctrl-C; LIMIT 10 EMIT CHANGES ends by itself
  SHOW TOPICS; SHOW TABLES; DESCRIBE flights;

  CREATE TABLE delays (carrier STRING, time_hour TIMESTAMP, dep_delay DOUBLE)
    WITH (topic = flights, watermark = 'time_hour 1 hour');
                                     says what a topic's records are; else a sample tells.
                                     topic, key.format, value.format (json, avro, string, bytes), value.schema,
                                     bad.records (fail, null, drop), mode (stream, static), starting.offsets …
  CREATE TABLE airlines WITH (path = '/data/airlines.csv', format = csv, options.header = true);
                                     what lies in files, or anything else that Spark reads

  CREATE PIPELINE by_carrier WITH (key = carrier) AS SELECT carrier, count(*) FROM flights GROUP BY carrier;
  CREATE TABLE late WITH (path = '/data/late', format = parquet, partition.by = carrier) AS SELECT …;
                                     a connector that goes on for ever; by default it writes to a topic of its name.
                                     topic, key, key.format, value.format, format, path, partition.by, mode,
                                     checkpoint, partitions, replicas, trigger.interval, spark.… and the others of
                                     `ottla connect plugins --settings SparkPipeline`
  SHOW PIPELINES; DESCRIBE PIPELINE by_carrier; DROP PIPELINE by_carrier;
                                     with its checkpoint, unless that was named or KEEP CHECKPOINT follows

  SET spark.sql.shuffle.partitions = 4;        Spark's settings; those of SQL are for pipelines, too
  SET ottla.starting.offsets = latest;         where EMIT CHANGES begins; earliest by default
  SET ottla.checkpoint.location = /data/checkpoints;   where pipelines keep how far they have come
  EXIT;

Everything else is Spark's SQL: CREATE TEMPORARY VIEW, EXPLAIN, SHOW FUNCTIONS …
"""
