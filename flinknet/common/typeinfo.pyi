from flinknet.common import TypeInformation as TypeInformation
from flinknet.common import Types as Types
