from flinknet.common import TimestampAssigner as TimestampAssigner
from flinknet.common import WatermarkStrategy as WatermarkStrategy
