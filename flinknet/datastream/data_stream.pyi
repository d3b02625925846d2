from flinknet.datastream import BroadcastConnectedStream as BroadcastConnectedStream
from flinknet.datastream import BroadcastStream as BroadcastStream
from flinknet.datastream import ConnectedStreams as ConnectedStreams
from flinknet.datastream import DataStream as DataStream
from flinknet.datastream import DataStreamSink as DataStreamSink
from flinknet.datastream import KeyedStream as KeyedStream
from flinknet.datastream import WindowedStream as WindowedStream
