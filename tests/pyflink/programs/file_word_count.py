# mypy: ignore-errors
"""Counts the words of files, and writes the counts to files."""

import tempfile
from pathlib import Path

from pyflink.common import Encoder, Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)


def lines_of(env, path):
    return env.from_source(
        source=FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
        .process_static_file_set()
        .build(),
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
        source_name="file_source",
    )


with tempfile.TemporaryDirectory() as directory:
    Path(directory, "in.txt").write_text("to be\nor not to be\n")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(2)
    counts = (
        lines_of(env, f"{directory}/in.txt")
        .flat_map(str.split, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(lambda pair: f"{pair[0]} {pair[1]}", output_type=Types.STRING())
    )
    counts.sink_to(
        sink=FileSink.for_row_format(
            base_path=f"{directory}/out", encoder=Encoder.simple_string_encoder()
        )
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("count").with_part_suffix(".ext").build()
        )
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )
    env.execute()
    assert all(file.name.startswith("count-") for file in Path(directory, "out").glob("*.ext"))

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    lines_of(env, f"{directory}/out").print()
    env.execute()
