from flinknet.common import Duration as Duration
from flinknet.common import Instant as Instant
from flinknet.common import Time as Time
