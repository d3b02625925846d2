from flinknet.common import Configuration as Configuration
