"""The whole API: who answers which method of which path, and who may ask.

`ApiHandler.prepare` enforces the access, so a handler cannot forget it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regsvc.api.base import Access, ApiHandler
from regsvc.api.config_handlers import ConfigHandler, VersionHandler

PUBLIC, USER, ADMIN = Access.PUBLIC, Access.USER, Access.ADMIN


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path; HEAD comes with GET."""

    method: Literal["GET", "POST"]
    path: str
    handler: type[ApiHandler]
    access: Access


ROUTES = (
    Route("GET", "/api/config", ConfigHandler, PUBLIC),
    Route("GET", "/api/version", VersionHandler, PUBLIC),
)
