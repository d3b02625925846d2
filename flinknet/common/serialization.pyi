from flinknet.common import Encoder as Encoder
