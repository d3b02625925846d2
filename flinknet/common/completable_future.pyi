from flinknet.common import CompletableFuture as CompletableFuture
