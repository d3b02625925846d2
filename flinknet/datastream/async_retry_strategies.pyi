from flinknet.datastream import (
    ExponentialBackoffDelayRetryStrategy as ExponentialBackoffDelayRetryStrategy,
)
from flinknet.datastream import FixedDelayRetryStrategy as FixedDelayRetryStrategy
from flinknet.datastream import NoRetryStrategy as NoRetryStrategy
from flinknet.datastream import RetryPredicate as RetryPredicate
