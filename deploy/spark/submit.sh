#!/bin/sh
# Run a job on a Spark cluster, whose executors need no flinknet:
#
#   deploy/spark/submit.sh spark://HOST:7077 job.py
#   WORKERS=8 deploy/spark/submit.sh yarn job.py
#
# Further arguments go to `flinknet run`. Spark's own settings are in $SPARK_CONF_DIR/spark-defaults.conf;
# flinknet[spark] and Java 17 or newer are needed here.
set -eu

if [ $# -lt 2 ]; then
  echo "usage: [WORKERS=N] $0 MASTER JOB.py [OPTION ...]" >&2
  exit 2
fi
master=$1 job=$2
shift 2

exec "${FLINKNET:-flinknet}" run "$job" --on spark --master "$master" --workers "${WORKERS:-2}" "$@"
