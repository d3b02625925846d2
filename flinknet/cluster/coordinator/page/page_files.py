"""The files of the web page, as they stand in ``static/``: no build step, nothing from elsewhere.

::

    GET  /                           the page
    GET  /page/{file}                its modules, its style, its icon

They say nothing of jobs, and so are open without the cluster token. The page takes that out of the
fragment of its address, which no browser sends (``#token=...``), or asks for it, and shows it with
each request. The policy that goes with the files keeps anything else from being loaded or asked.
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
    """The files, read once: who asks for one of them waits for no disk."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir())}

    def routes(self) -> list[web.RouteDef]:
        """What to add to an application: a path for each file, and no other."""
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
