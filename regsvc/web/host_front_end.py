"""A host's own front end beside the API: its files, and `index.html` for its client-side routes.

Files are opened and read in chunks on separate threads, so that neither large files nor slow disks block the API.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from regsvc.api.base import BaseHandler
from regsvc.api.events import disconnect, write_chunk
from regsvc.core.errors import InternalServerError, MalformedRequest, MethodNotAllowed, Overloaded, Refusal, UnknownPath
from regsvc.web.static_files import FoundFile, WebRoot

P = ParamSpec("P")
T = TypeVar("T")

CHUNK_BYTES: Final = 64 * 1024
MAX_TRANSFERS: Final = 200
"""Maximum number of files in transfer at a time; each keeps one chunk in memory."""

_THREADS: Final = 2
_OUTSIDE_API: Final = r"/(?!api(?:/|$)).*"
_FOREVER: Final = "public, max-age=31536000, immutable"
_REVALIDATE: Final = "no-cache"
_ONE_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class FrontEnd:
    """The front end's folder and the threads that read it."""

    def __init__(self, folder: Path) -> None:
        self.root = WebRoot(folder)
        self._threads = ThreadPoolExecutor(_THREADS, "front-end")
        self.transfers = 0

    async def run(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that accesses files on one of the threads."""
        call = partial(read, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def front_end_rules(folder: Path | None) -> list[tuple[Any, ...]]:
    """Return Tornado's rules for all paths that nothing else matches (to be added last); none without a folder."""
    return [] if folder is None else [(_OUTSIDE_API, FrontEndHandler, {"front_end": FrontEnd(folder)})]


@dataclass(frozen=True)
class ByteRange:
    """`length` bytes of a file from `start`; `is_whole` if the client gets the whole file."""

    start: int
    length: int
    is_whole: bool = False


class FrontEndHandler(BaseHandler):
    """Handler for GET and HEAD; errors are one sentence of plain text."""

    def initialize(self, front_end: FrontEnd) -> None:
        self._front_end = front_end

    async def get(self) -> None:
        if self._front_end.transfers >= MAX_TRANSFERS:
            raise Overloaded
        self._front_end.transfers += 1
        try:
            found = await self._front_end.run(self._front_end.root.find, self.request.path)
            if found is None:
                raise UnknownPath
            with found:
                await self._answer(found)
        finally:
            self._front_end.transfers -= 1

    head = get

    async def _answer(self, file: FoundFile) -> None:
        modified = formatdate(file.modified_at, usegmt=True)
        self.set_header("Cache-Control", _FOREVER if file.is_immutable else _REVALIDATE)
        self.set_header("Etag", file.etag)
        self.set_header("Last-Modified", modified)
        self.set_header("Accept-Ranges", "bytes")
        if self._is_not_modified(file):
            self.set_status(HTTPStatus.NOT_MODIFIED)
            return
        self.set_header("Content-Type", file.media_type)
        byte_range = self._requested_range(file, modified)
        if byte_range is None:
            self.set_status(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.set_header("Content-Range", f"bytes */{file.size}")
            return
        start, length = byte_range.start, byte_range.length
        if not byte_range.is_whole:
            self.set_status(HTTPStatus.PARTIAL_CONTENT)
            self.set_header("Content-Range", f"bytes {start}-{start + length - 1}/{file.size}")
        self.set_header("Content-Length", str(length))
        if self.request.method != "HEAD":
            await self._send(file, byte_range)

    def _is_not_modified(self, file: FoundFile) -> bool:
        """Return whether the client's copy is current; an ETag takes precedence over a time."""
        tags = self.request.headers.get("If-None-Match")
        if tags is not None:
            return tags.strip() == "*" or file.etag in [tag.strip().removeprefix("W/") for tag in tags.split(",")]
        since = self.request.headers.get("If-Modified-Since")
        try:
            return since is not None and file.modified_at <= parsedate_to_datetime(since).timestamp()
        except (ValueError, OverflowError):
            return False

    def _requested_range(self, file: FoundFile, modified: str) -> ByteRange | None:
        """Return the range to send; None if the requested one is outside the file.

        It is the whole file unless the client requests exactly one range of the version that it has (RFC 9110, 14).
        """
        whole = ByteRange(0, file.size, is_whole=True)
        requested = self.request.headers.get("Range")
        version = self.request.headers.get("If-Range")
        if requested is None or self.request.method == "HEAD" or version not in (None, file.etag, modified):
            return whole
        match = _ONE_RANGE.fullmatch(requested.strip())
        if match is None or match[0] == "bytes=-":
            return whole
        return _resolve_range(file.size, match[1], match[2]) if _is_range(match[1], match[2]) else whole

    async def _send(self, file: FoundFile, byte_range: ByteRange) -> None:
        offset, end = byte_range.start, byte_range.start + byte_range.length
        while offset < end:
            chunk = await self._front_end.run(file.read, offset, min(CHUNK_BYTES, end - offset))
            if not chunk:  # the file was truncated meanwhile
                disconnect(self.request)
                return
            if not await write_chunk(self, chunk):
                return
            offset += len(chunk)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        exc_info = kwargs.get("exc_info")
        refusal = self._refusal_for(status_code, exc_info[1] if isinstance(exc_info, tuple) else None)
        self.set_status(refusal.category)
        if isinstance(refusal, MethodNotAllowed):
            self.set_header("Allow", ", ".join(refusal.allowed))
        if refusal.retry_after is not None:
            self.set_header("Retry-After", str(refusal.retry_after))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._message_for(refusal) + "\n")

    def _message_for(self, refusal: Refusal) -> str:
        services = self.services
        accepted = self.request.headers.get("Accept-Language")
        language = services.translations.pick(None, accepted, services.config.server.language)
        return services.translations.refusal(refusal, language)

    def _refusal_for(self, status: int, error: BaseException | None) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(["GET", "HEAD"])
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:  # Tornado rejects a form it cannot parse
            return MalformedRequest()
        return InternalServerError(self.request_id)


def _is_range(first: str, last: str) -> bool:
    """Return whether a range is valid: its end does not precede its start. An invalid range is ignored."""
    return not first or not last or int(first) <= int(last)


def _resolve_range(size: int, first: str, last: str) -> ByteRange | None:
    """Resolve "10-19", "10-" (to the end) or "-10" (the last ten bytes); returns None if it is outside the file."""
    if not first:
        length = min(int(last), size)
        return ByteRange(size - length, length) if length else None
    start = int(first)
    end = min(int(last) + 1, size) if last else size
    return ByteRange(start, end - start) if start < end else None
