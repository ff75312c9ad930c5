"""A host's own front end beside the API: its files, and `index.html` for its client-side routes.

Never a hidden file, nor one outside the folder. Files are opened and read in chunks on separate threads, so that
neither large files nor slow disks block the API.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import unquote_to_bytes

from regsvc.core.errors import Overloaded, UnknownPath
from regsvc.http.live_streams import disconnect, write_chunk
from regsvc.web.base import ReadOnlyHandler

log = logging.getLogger(__name__)

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

INDEX: Final = "index.html"
_API: Final = "api"  # paths below it are never files of the host, in whatever case

_UTF_8: Final = "; charset=utf-8"
MEDIA_TYPES: Final = {
    "html": f"text/html{_UTF_8}",
    "htm": f"text/html{_UTF_8}",
    "css": f"text/css{_UTF_8}",
    "js": f"text/javascript{_UTF_8}",
    "mjs": f"text/javascript{_UTF_8}",
    "json": "application/json",
    "map": "application/json",
    "webmanifest": "application/manifest+json",
    "xml": "application/xml",
    "txt": f"text/plain{_UTF_8}",
    "md": f"text/markdown{_UTF_8}",
    "wasm": "application/wasm",
    "pdf": "application/pdf",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "zip": "application/zip",
    "jar": "application/java-archive",
}
"""Media types by file extension. Not `mimetypes`, whose table differs from host to host."""
_OTHER: Final = "application/octet-stream"
_PAGES: Final = frozenset({"html", "htm"})

# Bundlers put a content hash into file names: hexadecimal digits, or eight characters in `assets/`. In `js/` and `css/`
# the eight must not look like a word: they have a capital and a digit, or three capitals and a small letter.
_HASHED: Final = re.compile(
    r".*[.-](?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,64}\.[\w.]+"
    r"|(?:.*/)?assets/.*[.-][\w-]{8}\.[\w.]+"
    r"|(?:.*/)?(?:js|css)/.*[.-](?:(?=[\w-]*[A-Z])(?=[\w-]*[0-9])|(?=[\w-]*[a-z])(?=(?:[\w-]*?[A-Z]){3}))[\w-]{8}\.[\w.]+"
)


@dataclass(frozen=True)
class FoundFile:
    """A file that may be served, open until `close`. Times are whole seconds since 1970."""

    descriptor: int
    size: int
    modified_at: int
    etag: str
    media_type: str
    is_immutable: bool
    """The name contains a content hash, so the content never changes."""

    def read(self, offset: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer at the end of the file, which may have been truncated meanwhile."""
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        os.close(self.descriptor)


def find_file(folder: Path, path: str) -> FoundFile | None:
    """Return the file for a URL path, falling back to `index.html` if the path names no file. Blocking.

    The content of the folder may change at any time. Returns None for paths that leave the folder (by links or dots),
    for hidden files, and for missing assets such as scripts and images, where a page in their place would only hide the
    mistake.
    """
    root = os.path.realpath(folder)
    parts = _parts_of(path)
    name = None if parts is None else _real_name(root, parts)
    if parts is None or name is None:
        return None
    found = _open(root, name)
    if found is None and not _is_asset(parts[-1]):
        index = _real_name(root, [INDEX])
        found = None if index is None else _open(root, index)
    return found


def _real_name(root: str, parts: list[str]) -> str | None:
    """Return the name relative to the folder with links resolved; None if it is outside or hidden."""
    name = os.path.relpath(os.path.realpath(os.path.join(root, *parts)), root)  # noqa: PTH118 - links count
    return None if any(part.startswith(".") for part in Path(name).parts or (".",)) else name


def _open(root: str, name: str) -> FoundFile | None:
    """Open a file; returns None if it does not exist, is no regular file or cannot be read."""
    try:
        descriptor = os.open(f"{root}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        log.debug("cannot serve %s: %s", name[:200], error.strerror)
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    extension = _extension_of(name)
    return FoundFile(
        descriptor=descriptor,
        size=status.st_size,
        modified_at=int(status.st_mtime),
        etag=f'"{status.st_mtime_ns:x}-{status.st_size:x}"',
        media_type=MEDIA_TYPES.get(extension, _OTHER),
        is_immutable=_HASHED.fullmatch(name) is not None,
    )


def _parts_of(path: str) -> list[str] | None:
    """Return the decoded segments of a URL path; None for empty, hidden or unsafe segments, and for `api`."""
    try:
        decoded = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return None
    parts = decoded.removeprefix("/").removesuffix("/").split("/") if decoded != "/" else [INDEX]
    if any(not part or part.startswith(".") or re.search(r"[\x00-\x1f\\]", part) for part in parts):
        return None
    return None if parts[0].lower() == _API else parts


def _is_asset(name: str) -> bool:
    extension = _extension_of(name)
    return extension in MEDIA_TYPES and extension not in _PAGES


def _extension_of(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


class FrontEnd:
    """The front end's folder and the threads that read it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._threads = ThreadPoolExecutor(_THREADS, "front-end")
        self.transfers = 0

    async def run(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that accesses files on one of the threads."""
        call = partial(read, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def front_end_rules(folder: Path | None) -> list[tuple[Any, ...]]:
    """Return Tornado's rules for all paths that nothing else matches (to be added last); none without a folder."""
    return [] if folder is None else [(_OUTSIDE_API, FrontEndHandler, {"front_end": FrontEnd(folder)})]


class FrontEndHandler(ReadOnlyHandler):
    """Handler of the files; the front end brings its own CSP, if it has one."""

    content_security_policy = ""

    def initialize(self, front_end: FrontEnd) -> None:
        self._front_end = front_end

    async def get(self) -> None:
        if self._front_end.transfers >= MAX_TRANSFERS:
            raise Overloaded
        self._front_end.transfers += 1
        try:
            found = await self._front_end.run(find_file, self._front_end.folder, self.request.path)
            if found is None:
                raise UnknownPath
            with closing(found):
                await self._answer(found)
        finally:
            self._front_end.transfers -= 1

    async def head(self) -> None:
        await self.get()

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
        start, length = 0, file.size
        if requested := self._requested_range(file, modified):
            self.set_status(HTTPStatus.PARTIAL_CONTENT)
            byte_range = _resolve_range(file.size, *requested)
            if byte_range is None:
                self.set_status(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                self.set_header("Content-Range", f"bytes */{file.size}")
                return
            start, length = byte_range
            self.set_header("Content-Range", f"bytes {start}-{start + length - 1}/{file.size}")
        self.set_header("Content-Length", str(length))
        if self.request.method != "HEAD":
            await self._send(file, start, length)

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

    def _requested_range(self, file: FoundFile, modified: str) -> tuple[str, str] | None:
        """Return first and last byte as requested (see `_resolve_range`); None: the client gets the whole file.

        It does unless it requests exactly one range of the version that it has (RFC 9110, 14).
        """
        requested = self.request.headers.get("Range")
        version = self.request.headers.get("If-Range")
        if requested is None or self.request.method == "HEAD" or version not in (None, file.etag, modified):
            return None
        match = _ONE_RANGE.fullmatch(requested.strip())
        if match is None or match[0] == "bytes=-":
            return None
        first, last = match.groups()
        is_backwards = first and last and int(first) > int(last)  # such a range is ignored
        return None if is_backwards else (first, last)

    async def _send(self, file: FoundFile, start: int, length: int) -> None:
        offset, end = start, start + length
        while offset < end:
            chunk = await self._front_end.run(file.read, offset, min(CHUNK_BYTES, end - offset))
            if not chunk:  # the file was truncated meanwhile
                disconnect(self.request)
                return
            if not await write_chunk(self, chunk):
                return
            offset += len(chunk)


def _resolve_range(size: int, first: str, last: str) -> tuple[int, int] | None:
    """Return start and length of "10-19", "10-" (to the end) or "-10" (the last ten bytes); None: outside the file."""
    if not first:
        length = min(int(last), size)
        return (size - length, length) if length else None
    start = int(first)
    end = min(int(last) + 1, size) if last else size
    return (start, end - start) if start < end else None
