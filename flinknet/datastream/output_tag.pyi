from flinknet.datastream import OutputTag as OutputTag
