from flinknet.common import Row as Row
from flinknet.common import RowKind as RowKind
