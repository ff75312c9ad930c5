"""Base of all pages and their assets: read-only handlers, the visitor's language, one strict CSP."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Iterable
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

from regsvc.core.errors import InternalServerError, MalformedRequest, MethodNotAllowed, Refusal
from regsvc.core.i18n import find_language, negotiate_language
from regsvc.http.call import BaseHandler, accepts_gzip

LANGUAGE_COOKIE: Final = "companion_language"
"""Cookie with the language that the visitor chose; written by the pages' own scripts."""

_SMALLEST_COMPRESSED: Final = 1000  # bytes


def content_security_policy(image_sources: Iterable[str] = (), *, has_worker: bool = False) -> str:
    """Return the CSP of a page: only scripts, styles and requests of our own origin, nothing inline, no framing."""
    sources = " ".join(("data:", *image_sources))  # the empty icon and captchas are data URLs
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "worker-src 'self'" if has_worker else "worker-src 'none'",
            "style-src 'self'",
            "connect-src 'self'",
            f"img-src {sources}",
            "manifest-src 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        )
    )


CONTENT_SECURITY_POLICY: Final = content_security_policy()


class ReadOnlyHandler(BaseHandler):
    """Base class of handlers for GET and HEAD; errors are one sentence of plain text."""

    content_security_policy = CONTENT_SECURITY_POLICY

    @cached_property
    def language(self) -> str:
        """The language in the link, else the one the visitor chose on a page, the browser's, or the host's."""
        known = self.languages
        requested = self.request.query_arguments.get("language", [b""])[-1].decode("utf-8", "replace")
        chosen = find_language(known, requested) or find_language(known, self.find_choice(LANGUAGE_COOKIE))
        accepted = self.request.headers.get("Accept-Language")
        return negotiate_language(known, chosen, accepted, self.config.server.language)

    def find_choice(self, cookie: str) -> str:
        """Return what the visitor chose on a page, "" if nothing; see `setCookie` in `shared/cookies.js`."""
        return self.get_cookie(f"__Host-{cookie}") or self.get_cookie(cookie) or ""

    @property
    def languages(self) -> list[str]:
        """The tags of the languages to choose from."""
        return self.translations.languages

    def head(self) -> Awaitable[None] | None:
        return self.get()

    def send_page(self, html: bytes, language: str) -> None:
        """Send a page, compressed if the client accepts it, and finish the request."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Language", language)
        self.set_header("Vary", "Accept-Language, Accept-Encoding, Cookie")
        if accepts_gzip(self.request) and len(html) >= _SMALLEST_COMPRESSED:
            self.set_header("Content-Encoding", "gzip")
            html = gzip.compress(html, compresslevel=6, mtime=0)
        self.finish(html)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        refusal = self._refusal_for(status_code, kwargs.get("exc_info"))
        self.set_status(refusal.category)
        if isinstance(refusal, MethodNotAllowed):
            self.set_header("Allow", ", ".join(refusal.allowed))
        if refusal.retry_after is not None:
            self.set_header("Retry-After", str(refusal.retry_after))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self.translations.refusal(refusal, self.language) + "\n")

    def _refusal_for(self, status_code: int, exc_info: Any) -> Refusal:
        if exc_info and isinstance(exc_info[1], Refusal):
            return exc_info[1]
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(["GET", "HEAD"])
        if status_code < HTTPStatus.INTERNAL_SERVER_ERROR:  # Tornado rejects a form it cannot parse
            return MalformedRequest()
        return InternalServerError(request_id=self.request_id)
