from flinknet.datastream import TimerService as TimerService
