"""From settings to a plan. Pure: the same settings always give the same plan."""

from collections.abc import Mapping

from ottla_spark.job.config import JobConfig
from ottla_spark.job.connector_configs import INPUT, SparkPipelineConfig, SparkSinkConfig, SparkSourceConfig
from ottla_spark.job.output_config import EncodingConfig, OutputConfig
from ottla_spark.job.plan import (
    FormatRead,
    FormatWrite,
    JobPlan,
    Output,
    PythonFunction,
    Table,
    TopicRead,
    TopicWrite,
)
from ottla_spark.job.query_text import SqlQuery, parsed_query
from ottla_spark.job.table_config import DecodingConfig, TableConfig

OUTPUT = "output"
"""The name of the one output of a source or a sink."""

ALL_ROWS = SqlQuery(query="SELECT * FROM input")


def plan_of(config: JobConfig, connector: str) -> JobPlan:
    """Return what a connector with these settings does."""
    if isinstance(config, SparkPipelineConfig):
        return _pipeline_plan(config, connector)
    if isinstance(config, SparkSinkConfig):
        return _sink_plan(config, connector)
    assert isinstance(config, SparkSourceConfig), type(config)
    return _source_plan(config, connector)


def _source_plan(config: SparkSourceConfig, connector: str) -> JobPlan:
    read = config.read
    reading = FormatRead(format=read.format, path=read.path, schema=read.row_schema, options=read.options)
    table = Table(name=INPUT, streaming=read.streaming, reading=reading, watermark=read.watermark)
    output = Output(name=OUTPUT, writing=_topic_write(config, config.topic, {}))
    return _plan(config, connector, (table,), parsed_query(config.sql) if config.sql.strip() else ALL_ROWS, (output,))


def _sink_plan(config: SparkSinkConfig, connector: str) -> JobPlan:
    reading = _topic_read(config, config, config.topics, config.topics_regex, streaming=True, options={})
    table = Table(
        name=INPUT,
        streaming=True,
        reading=reading,
        watermark=config.watermark,
        deduplicate_by=config.deduplicate_by,
    )
    output = Output(name=OUTPUT, writing=_writing(config.write), mode=config.write.mode)
    return _plan(config, connector, (table,), parsed_query(config.sql) if config.sql.strip() else ALL_ROWS, (output,))


def _pipeline_plan(config: SparkPipelineConfig, connector: str) -> JobPlan:
    query: SqlQuery | PythonFunction = parsed_query(config.sql)
    if config.python_function:
        module, _, name = config.python_function.partition(":")
        query = PythonFunction(module=module, name=name, files=config.python_files)
    return _plan(
        config,
        connector,
        tuple(_table(config, name, table) for name, table in config.tables.items()),
        query,
        tuple(
            Output(name=name, writing=_writing(output), mode=output.mode, view=output.view)
            for name, output in config.outputs.items()
        ),
    )


def _plan(
    config: JobConfig,
    connector: str,
    tables: tuple[Table, ...],
    query: SqlQuery | PythonFunction,
    outputs: tuple[Output, ...],
) -> JobPlan:
    group = config.commit_group
    return JobPlan(
        connector=connector,
        tables=tables,
        query=query,
        outputs=outputs,
        checkpoint_location=config.checkpoint_location.rstrip("/") or "/",
        trigger_interval=config.trigger_interval,
        available_now=config.available_now,
        topic_source=config.kafka_source,
        kafka=config.kafka,
        spark=config.spark,
        commit_group=f"connect-{connector}" if group is None else group.strip(),
    )


def _table(config: JobConfig, name: str, table: TableConfig) -> Table:
    streaming = table.mode == "stream"
    if table.format:
        reading: TopicRead | FormatRead = FormatRead(
            format=table.format, path=table.path, schema=table.row_schema, options=table.options
        )
    else:
        topics = () if table.pattern else (table.topic or name,)
        reading = _topic_read(config, table, topics, table.pattern, streaming=streaming, options=table.options)
    return Table(
        name=name,
        streaming=streaming,
        reading=reading,
        watermark=table.watermark if streaming else None,
        deduplicate_by=table.deduplicate_by,
    )


def _topic_read(
    config: JobConfig,
    decoding: DecodingConfig,
    topics: tuple[str, ...],
    pattern: str,
    *,
    streaming: bool,
    options: Mapping[str, str],
) -> TopicRead:
    selection = {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(topics)}
    read = {
        **selection,
        "startingOffsets": decoding.starting_offsets,
        "failOnDataLoss": str(config.fail_on_data_loss).lower(),
    }
    if decoding.headers:
        read["includeHeaders"] = "true"
    if streaming and config.max_offsets_per_trigger is not None:
        read["maxOffsetsPerTrigger"] = str(config.max_offsets_per_trigger)
    return TopicRead(
        topics=topics,
        pattern=pattern,
        options={**read, **options},
        key=decoding.format_of("key"),
        value=decoding.format_of("value"),
    )


def _writing(output: OutputConfig) -> TopicWrite | FormatWrite:
    if output.is_topic:
        return _topic_write(output, output.topic, output.options)
    return FormatWrite(
        format=output.format, path=output.path, partition_by=output.partition_by, options=output.options
    )


def _topic_write(encoding: EncodingConfig, topic: str, options: Mapping[str, str]) -> TopicWrite:
    return TopicWrite(
        topic=topic,
        key=encoding.format_of("key"),
        value=encoding.format_of("value"),
        key_columns=encoding.key_columns,
        value_columns=encoding.value_columns,
        options=options,
        exactly_once=encoding.is_exactly_once,
    )
