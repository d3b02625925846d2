from flinknet.common import RestartStrategies as RestartStrategies
