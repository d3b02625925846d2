"""Partition names at a coordinator: producers publish them there over HTTP.

A name lives as long as the request that published it. ``POST /api/v1/names`` is answered
immediately, but its response stays open while the partition is produced. The coordinator drops the
name when the connection is lost; the kernel closes it when a process is killed. A producer that has
finished withdraws its name first with ``DELETE``, so the name is gone at the end of the
``published`` block. A producer that has failed includes its error in the same request. A restarted
coordinator knows no names, and each producer publishes its name again as soon as it can. A reader
calls ``GET /api/v1/names``. The answer comes when there are as many producers as it wants, when one
has failed, or after a while.

A coordinator that does not answer the first request is an error. Later, producers wait for it as
long as they produce, and readers until their deadline.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

from flinknet import machine
from flinknet.config import TOKEN_VARIABLE, NetworkConfig
from flinknet.errors import (
    ConfigurationError,
    FlinknetError,
    RemoteError,
    RemoteTransportError,
    remote_error,
)
from flinknet.net.address import split_address
from flinknet.net.backoff import CONTROL_PAUSE_S, Backoff
from flinknet.net.http_request import HttpRequest
from flinknet.net.partition_names import FailedProducer, PartitionNames, Withdraw
from flinknet.net.tls import Tls, TlsFiles

__all__ = ["CoordinatorNames"]

log = logging.getLogger("flinknet.rendezvous")

_ANSWER_S = 10.0
"""Time in seconds for a coordinator's answer, beyond the requested waiting time."""

_WITHDRAW_S = 2.0
"""Time in seconds for a coordinator to drop a name; otherwise the name ends with the connection."""


class CoordinatorNames(PartitionNames):
    """Published partitions of one job at the coordinator at ``address``.

    The address is like ``http://127.0.0.1:8081``. With ``https://`` it requires ``tls`` from files.
    The cluster's token is appended as in the address of the coordinator's page (``/#token=...``),
    or read from ``FLINKNET_CLUSTER_TOKEN``.

    Raises:
        ConfigurationError: If there is no token, or the address is not a coordinator's.
    """

    def __init__(
        self,
        address: str,
        job: str,
        config: NetworkConfig | None = None,
        tls: Tls | None = None,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
            raise ConfigurationError(
                f"{parts.scheme}://{parts.netloc}{parts.path} is not the address of a coordinator: "
                "write it as http://127.0.0.1:8081, or with https:// if it has TLS"
            )
        if parts.scheme == "https" and not isinstance(tls, TlsFiles):
            raise ConfigurationError(
                f"{parts.scheme}://{parts.netloc} needs certificates: give the environment tls="
                "TlsFiles(CERTIFICATE, PRIVATE_KEY, AUTHORITY)"
            )
        self._tls = tls if parts.scheme == "https" and isinstance(tls, TlsFiles) else None
        self._host, self._port = split_address(parts.netloc)
        super().__init__(job, f"the coordinator at {parts.netloc}", config)
        token = parts.fragment.removeprefix("token=") or os.environ.get(TOKEN_VARIABLE, "")
        if not token.isascii() or not token.isprintable() or not token:
            raise ConfigurationError(
                f"{self._place} requires the cluster's token: set {TOKEN_VARIABLE}, or give the "
                "address with it, http://HOST:PORT/#token=TOKEN"
            )
        self._token = token
        self._has_answered = False

    async def _publish(self, name: str, worker_id: str, address: str) -> Withdraw:
        publication = machine.unique_id()
        body = {
            "id": publication,
            "job": self._job,
            "name": name,
            "worker_id": worker_id,
            "address": address,
        }
        held = await self._publish_at_coordinator(body)
        keeper = asyncio.get_running_loop().create_task(self._keep(held, body))

        async def withdraw(failed: FailedProducer | None) -> None:
            try:
                # The coordinator drops the name with the connection, so withdraw it first.
                with suppress(FlinknetError):
                    last_words = None if failed is None else self._failure_fields(failed)
                    async with self._request(_WITHDRAW_S, "DELETE", f"/{publication}", last_words):
                        pass  # the coordinator has dropped the name
            finally:
                keeper.cancel()
                try:
                    # ``await keeper`` would hide a cancellation of this task.
                    await asyncio.wait([keeper])
                finally:
                    await held.__aexit__()  # the keeper has closed it, unless it never ran

        return withdraw

    async def look_up(
        self, name: str, producers: int, wait_s: float, subpartition: int = 0
    ) -> list[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        backoff = Backoff(*CONTROL_PAUSE_S)
        while True:
            left = max(0.0, until - loop.time())
            query = urlencode(
                {
                    "job": self._job,
                    "name": name,
                    "producers": producers,
                    "subpartition": subpartition,
                    "wait_ms": int(left * 1000),
                }
            )
            try:
                async with self._request(_ANSWER_S + left, "GET", f"?{query}") as request:
                    answer = await request.json()
                self._has_answered = True
                found, failure = list(answer["addresses"]), answer["failure"]
                if failure is not None and len(found) < producers:
                    raise _error_in(failure)
                return found
            except RemoteTransportError:
                # Only a coordinator that has answered before is waited for.
                if not self._has_answered or not left:
                    raise
            await asyncio.sleep(min(backoff.next_pause(), left))

    def _request(
        self, timeout_s: float, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> HttpRequest:
        return HttpRequest(
            self._host,
            self._port,
            self._token,
            timeout_s=timeout_s,
            method=method,
            path=f"/api/v1/names{path}",
            body=body,
            tls=self._tls,
        )

    def _failure_fields(self, failed: FailedProducer) -> dict[str, object]:
        return {**failed.as_json(), "remembered_ms": self._config.ended_partitions_remembered_ms}

    async def _publish_at_coordinator(self, body: Mapping[str, object]) -> HttpRequest:
        """Publish the name, and return the request that keeps it."""
        return await self._request(_ANSWER_S, "POST", "", body).__aenter__()

    async def _keep(self, held: HttpRequest, body: Mapping[str, object]) -> None:
        """Keep the name published until this task is cancelled."""
        while True:
            try:
                await held.ended()
            finally:
                await held.__aexit__()
            log.warning(
                '%s is lost: readers cannot find "%s" until it is back', self._place, body["name"]
            )
            backoff = Backoff(*CONTROL_PAUSE_S)
            while True:
                try:
                    held = await self._publish_at_coordinator(body)
                    break
                except ConfigurationError as error:
                    log.error('readers cannot find "%s" any more: %s', body["name"], error)
                    return
                except RemoteTransportError:
                    await asyncio.sleep(backoff.next_pause())


def _error_in(failure: Mapping[str, object]) -> RemoteError:
    return remote_error(int(str(failure["code"])), str(failure["text"]))
