from flinknet.common import ExecutionConfig as ExecutionConfig
