"""An object store with delays and outages, with the part of the S3 API that checkpoints need."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from xml.sax.saxutils import escape, unescape

from aiohttp import web

__all__ = ["LateStore"]

_BYTES_MAX = 1 << 26
_KEYS = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)


class LateStore:
    """One bucket in memory; each answer takes ``late_s`` seconds."""

    def __init__(self) -> None:
        self.late_s = 0.0
        self.is_away = False
        """Whether it answers 503, after which clients retry."""
        self.objects: dict[str, bytes] = {}
        self.requests = 0
        self._uploads: dict[str, dict[int, bytes]] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve the bucket, and yield the endpoint."""
        application = web.Application(client_max_size=_BYTES_MAX)
        application.router.add_route("*", "/{bucket}", self._handle)
        application.router.add_route("*", "/{bucket}/{key:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        if self.late_s:
            await asyncio.sleep(self.late_s)
        if self.is_away:
            return web.Response(status=503)
        key = request.match_info.get("key", "")
        match request.method:
            case "GET" if not key:
                return self._list(request)
            case "GET" | "HEAD":
                return self._get(request, key)
            case "PUT" if "uploadId" in request.query:
                part = int(request.query["partNumber"])
                self._uploads[request.query["uploadId"]][part] = body
                return web.Response(headers={"ETag": _etag(body)})
            case "PUT":
                if request.headers.get("If-None-Match") == "*" and key in self.objects:
                    return web.Response(status=412)
                self.objects[key] = body
                return web.Response(headers={"ETag": _etag(body)})
            case "POST" if "uploads" in request.query:
                upload = f"upload-{self.requests}"
                self._uploads[upload] = {}
                return _xml(
                    f"<R><UploadId>{upload}</UploadId></R>", "InitiateMultipartUploadResult"
                )
            case "POST" if "uploadId" in request.query:
                parts = self._uploads.pop(request.query["uploadId"])
                self.objects[key] = b"".join(parts[number] for number in sorted(parts))
                tag = _etag(self.objects[key])
                return _xml(f"<R><ETag>{escape(tag)}</ETag></R>", "CompleteMultipartUploadResult")
            case "POST" if "delete" in request.query:
                gone = [unescape(key) for key in _KEYS.findall(body.decode())]
                for one in gone:
                    self.objects.pop(one, None)
                deleted = [f"<Deleted><Key>{escape(one)}</Key></Deleted>" for one in gone]
                return _xml("<R>" + "".join(deleted) + "</R>", "DeleteResult")
            case "DELETE":
                self.objects.pop(key, None)
                return web.Response(status=204)
        return web.Response(status=400)

    def _get(self, request: web.Request, key: str) -> web.Response:
        content = self.objects.get(key)
        if content is None:
            return web.Response(status=404)
        headers = {"ETag": _etag(content), "Last-Modified": "Fri, 01 Jan 2100 00:00:00 GMT"}
        span = request.http_range
        if span.start is None and span.stop is None:
            return web.Response(body=content, headers=headers)
        end = len(content) if span.stop is None else min(span.stop, len(content))
        headers["Content-Range"] = f"bytes {span.start}-{end - 1}/{len(content)}"
        return web.Response(status=206, body=content[span.start : end], headers=headers)

    def _list(self, request: web.Request) -> web.Response:
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        contents, folders = [], set()
        for key, content in sorted(self.objects.items()):
            if not key.startswith(prefix):
                continue
            name, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                folders.add(f"{prefix}{name}{delimiter}")
                continue
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                f"<LastModified>2100-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{escape(_etag(content))}</ETag></Contents>"
            )
        shared = [
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in sorted(folders)
        ]
        return _xml(
            "<R><IsTruncated>false</IsTruncated>" + "".join([*contents, *shared]) + "</R>",
            "ListBucketResult",
        )


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _xml(text: str, root: str) -> web.Response:
    text = text.replace("<R>", f"<{root}>", 1).removesuffix("</R>") + f"</{root}>"
    return web.Response(text=text, content_type="application/xml")
