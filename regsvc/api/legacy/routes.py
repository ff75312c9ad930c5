"""The route table under `http.legacy_status`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.handlers.login import LoginHandler
from regsvc.api.legacy.login import SingleLoginHandler
from regsvc.api.routes import Route

_REPLACED: Final[Mapping[type[ApiHandler], type[ApiHandler]]] = {
    LoginHandler: SingleLoginHandler,
}

_NEEDS_TO_KNOW: Final = "/api/user/status"
"""The public path where front ends notice that their session has ended."""


def legacy_routes(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the table with handlers that translate; on public routes, an invalid token counts as none."""
    return tuple(
        replace(route, handler=_REPLACED.get(route.handler, route.handler), access=_access_of(route))
        for route in routes
    )


def _access_of(route: Route) -> Access:
    is_lenient = route.access is Access.PUBLIC and route.path != _NEEDS_TO_KNOW
    return Access.PUBLIC_WITH_ANY_TOKEN if is_lenient else route.access
