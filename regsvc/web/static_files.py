"""Lookup of static files in a host's front end folder, never hidden files or files outside. Blocking."""

import logging
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import unquote_to_bytes

log = logging.getLogger(__name__)

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
    """A file that may be served, open until `close` or the end of a `with`. Times are whole seconds since 1970."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class WebRoot:
    """The folder of a host's front end. Its content may change at any time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, path: str) -> FoundFile | None:
        """Return the file for a URL path, falling back to `index.html` if the path names no file.

        Returns None for paths that leave the folder (by links or dots), for hidden files, and for missing assets such
        as scripts and images, where a page in their place would only hide the mistake.
        """
        root = os.path.realpath(self._folder)
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
