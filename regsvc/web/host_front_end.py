"""The host's front end, beside the API: its files, and its `index.html` for addresses that it alone understands.

Files are opened and read on threads of their own, a piece at a time, so that neither a large file nor a slow disk keeps
the API waiting.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from regsvc.api.base import BaseHandler
from regsvc.api.streaming import cut_off, write_chunk
from regsvc.core.errors import InternalServerError, MalformedRequest, MethodNotAllowed, Overloaded, Refusal, UnknownPath
from regsvc.web.static_files import FoundFile, WebRoot

P = ParamSpec("P")
T = TypeVar("T")

PIECE_BYTES: Final = 64 * 1024
MAX_TRANSFERS: Final = 200
"""Files on their way at a time; each holds a piece of itself in memory."""

_THREADS: Final = 2
_PATIENCE: Final = timedelta(minutes=1)  # for a client to take one piece
_NOT_OURS: Final = r"/(?!api(?:/|$)).*"
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_ONE_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class FrontEnd:
    """The folder and the threads that read it."""

    def __init__(self, folder: Path) -> None:
        self.root = WebRoot(folder)
        self._threads = ThreadPoolExecutor(_THREADS, "front-end")
        self.transfers = 0

    async def run(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function returns that touches files."""
        call = partial(read, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def front_end_rules(folder: Path | None) -> list[tuple[Any, ...]]:
    """Tornado's rules for what nobody else answers, to be asked last; none without a folder."""
    return [] if folder is None else [(_NOT_OURS, FrontEndHandler, {"front_end": FrontEnd(folder)})]


@dataclass(frozen=True)
class Part:
    """So many bytes from here on. `is_whole`: nothing else was asked for."""

    start: int
    length: int
    is_whole: bool = False


class FrontEndHandler(BaseHandler):
    """Answers GET and HEAD; what goes wrong is told in one plain sentence."""

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
        self.set_header("Cache-Control", _FOREVER if file.is_immutable else _ASK_AGAIN)
        self.set_header("Etag", file.tag)
        self.set_header("Last-Modified", modified)
        self.set_header("Accept-Ranges", "bytes")
        if self._is_known(file):
            self.set_status(HTTPStatus.NOT_MODIFIED)
            return
        self.set_header("Content-Type", file.media_type)
        part = self._wanted_part(file, modified)
        if part is None:
            self.set_status(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.set_header("Content-Range", f"bytes */{file.size}")
            return
        if not part.is_whole:
            self.set_status(HTTPStatus.PARTIAL_CONTENT)
            self.set_header("Content-Range", f"bytes {part.start}-{part.start + part.length - 1}/{file.size}")
        self.set_header("Content-Length", str(part.length))
        if self.request.method != "HEAD":
            await self._send(file, part)

    def _is_known(self, file: FoundFile) -> bool:
        """Whether the client has it already; a tag says more than a time."""
        tags = self.request.headers.get("If-None-Match")
        if tags is not None:
            return tags.strip() == "*" or file.tag in [tag.strip().removeprefix("W/") for tag in tags.split(",")]
        since = self.request.headers.get("If-Modified-Since")
        try:
            return since is not None and file.modified_at <= parsedate_to_datetime(since).timestamp()
        except (ValueError, OverflowError):
            return False

    def _wanted_part(self, file: FoundFile, modified: str) -> Part | None:
        """All of it, unless the client asks for one part of the file it knows; None for a part that is not there."""
        whole = Part(0, file.size, is_whole=True)
        wanted = self.request.headers.get("Range")
        known = self.request.headers.get("If-Range")
        if wanted is None or self.request.method == "HEAD" or known not in (None, file.tag, modified):
            return whole
        match = _ONE_RANGE.fullmatch(wanted.strip())
        if match is None or match[0] == "bytes=-":
            return whole
        return _part_of(file.size, match[1], match[2]) if _is_range(match[1], match[2]) else whole

    async def _send(self, file: FoundFile, part: Part) -> None:
        offset, end = part.start, part.start + part.length
        while offset < end:
            piece = await self._front_end.run(file.read, offset, min(PIECE_BYTES, end - offset))
            if not piece:  # somebody made it shorter meanwhile
                cut_off(self.request)
                return
            if not await write_chunk(self, piece, _PATIENCE):
                return
            offset += len(piece)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        exc_info = kwargs.get("exc_info")
        refusal = self._refusal_for(status_code, exc_info[1] if isinstance(exc_info, tuple) else None)
        self.set_status(refusal.category)
        if isinstance(refusal, MethodNotAllowed):
            self.set_header("Allow", ", ".join(refusal.allowed))
        if refusal.retry_after is not None:
            self.set_header("Retry-After", str(refusal.retry_after))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._words_for(refusal) + "\n")

    def _words_for(self, refusal: Refusal) -> str:
        services = self.services
        accepted = self.request.headers.get("Accept-Language")
        language = services.translations.pick(None, accepted, services.config.server.language)
        return services.translations.refusal(refusal, language)

    def _refusal_for(self, status: int, error: BaseException | None) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(["GET", "HEAD"])
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:  # Tornado objects to a form it cannot read
            return MalformedRequest()
        return InternalServerError(self.request_id)


def _is_range(first: str, last: str) -> bool:
    """Whether the end does not come before the beginning; then a client means something else than we read."""
    return not first or not last or int(first) <= int(last)


def _part_of(size: int, first: str, last: str) -> Part | None:
    """ "10-19", "10-" (to the end) or "-10" (the last ten); None where the file has nothing there."""
    if not first:
        length = min(int(last), size)
        return Part(size - length, length) if length else None
    start = int(first)
    end = min(int(last) + 1, size) if last else size
    return Part(start, end - start) if start < end else None
