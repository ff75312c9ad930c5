"""The files of a host's front end: which one a path means, and none that lies elsewhere or is hidden. Blocking."""

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
_API: Final = "api"  # what lies below is ours, however it is written

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
"""By the ending of the name. A table of our own: the system's differ from host to host."""
_OTHER: Final = "application/octet-stream"
_PAGES: Final = frozenset({"html", "htm"})

# Builders put a hash of the content into the names of what they make: hexadecimal, or eight characters in `assets/`.
_HASHED: Final = re.compile(
    r".*[.-](?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,64}\.[\w.]+|(?:.*/)?assets/.*[.-][\w-]{8}\.[\w.]+"
)


@dataclass(frozen=True)
class FoundFile:
    """A file that may be sent, open until `close` or the end of a `with`. Times are whole seconds since 1970."""

    descriptor: int
    size: int
    modified_at: int
    tag: str
    media_type: str
    is_page: bool
    is_immutable: bool
    """Its content never changes under this name."""

    def read(self, offset: int, length: int) -> bytes:
        """Fewer bytes where the file ends (somebody may have cut it meanwhile)."""
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
    """A folder. What it holds may change while we run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, path: str) -> FoundFile | None:
        """The file that the path of an address means; `index.html` for one that names no file.

        None where nothing may be sent: for a path that leads out of the folder, through a link or dots, for hidden
        files, and for a missing script or picture, in whose place a page would only hide the mistake.
        """
        root = os.path.realpath(self._folder)
        parts = _parts_of(path)
        place = None if parts is None else _place_in(root, parts)
        if parts is None or place is None:
            return None
        found = _open(root, place)
        if found is None and not _is_asset(parts[-1]):
            index = _place_in(root, [INDEX])
            found = None if index is None else _open(root, index)
        return found


def _place_in(root: str, parts: list[str]) -> str | None:
    """The real name in the folder, once links are followed; None where that is outside, or hidden."""
    place = os.path.relpath(os.path.realpath(os.path.join(root, *parts)), root)  # noqa: PTH118 - links count
    return None if any(part.startswith(".") for part in Path(place).parts or (".",)) else place


def _open(root: str, place: str) -> FoundFile | None:
    """None where there is no such file, or none that we may read."""
    try:
        descriptor = os.open(f"{root}/{place}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        log.debug("%s is not sent: %s", place[:200], error.strerror)
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    ending = _ending_of(place)
    return FoundFile(
        descriptor=descriptor,
        size=status.st_size,
        modified_at=int(status.st_mtime),
        tag=f'"{status.st_mtime_ns:x}-{status.st_size:x}"',
        media_type=MEDIA_TYPES.get(ending, _OTHER),
        is_page=ending in _PAGES,
        is_immutable=_HASHED.fullmatch(place) is not None,
    )


def _parts_of(path: str) -> list[str] | None:
    """The names between the slashes; None for a path that nobody writes in good faith."""
    try:
        decoded = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return None
    parts = decoded.removeprefix("/").removesuffix("/").split("/") if decoded != "/" else [INDEX]
    if any(not part or part.startswith(".") or re.search(r"[\x00-\x1f\\]", part) for part in parts):
        return None
    return None if parts[0].lower() == _API else parts


def _is_asset(name: str) -> bool:
    ending = _ending_of(name)
    return ending in MEDIA_TYPES and ending not in _PAGES


def _ending_of(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""
