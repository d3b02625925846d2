"""The files of the web page, served as they are in ``static/``, without a build step.

::

    GET  /                           the page
    GET  /page/{file}                its modules, its style, its icon

They are open without the cluster token, because they reveal nothing of jobs. The page takes the
token from the fragment of its address (``#token=...``), which browsers never send, or asks the user
for it. It sends the token with each request. The content security policy of the files keeps the
page from loading or requesting anything from other hosts.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path

from aiohttp import web

__all__ = ["PageFiles"]

STATIC = Path(__file__).parent / "static"

_INDEX = "index.html"

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageFiles:
    """The files, read once at start, so that no request waits for a disk."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir())}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application: a path for each file, and no other."""
        named = [web.get(f"/page/{name}", self._file) for name in self._files]
        return [web.get("/", self._index), *named]

    async def _index(self, request: web.Request) -> web.Response:
        return self._response(_INDEX)

    async def _file(self, request: web.Request) -> web.Response:
        return self._response(request.path.rpartition("/")[2])

    def _response(self, name: str) -> web.Response:
        kind = mimetypes.guess_type(name)[0] or "text/plain"
        return web.Response(
            body=self._files[name], content_type=kind, charset="utf-8", headers=_HEADERS
        )
