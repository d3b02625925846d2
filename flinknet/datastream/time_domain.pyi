from flinknet.datastream import TimeDomain as TimeDomain
