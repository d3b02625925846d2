from flinknet.datastream import FileSink as FileSink
from flinknet.datastream import FileSource as FileSource
from flinknet.datastream import FileSourceBuilder as FileSourceBuilder
from flinknet.datastream import OutputFileConfig as OutputFileConfig
from flinknet.datastream import RollingPolicy as RollingPolicy
from flinknet.datastream import StreamFormat as StreamFormat
