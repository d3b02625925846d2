from flinknet.common import JobClient as JobClient
