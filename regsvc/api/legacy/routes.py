"""The route table under `http.legacy_status`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.handlers.admin import AuditsHandler, UsersHandler
from regsvc.api.handlers.config import ConfigHandler
from regsvc.api.handlers.login import LoginHandler
from regsvc.api.handlers.passwords import ChangePasswordHandler
from regsvc.api.handlers.registration import ReviewStatusHandler, SendCodeHandler, UserStatusHandler
from regsvc.api.handlers.server import DownloadsHandler, ServerStatusHandler
from regsvc.api.handlers.users import UpdateUserHandler
from regsvc.api.legacy.account import ChangePasswordHereHandler, SendAnyCodeHandler, UpdateByCodeHandler
from regsvc.api.legacy.admin import PlainAuditsHandler, UsersWithIdHandler
from regsvc.api.legacy.login import SingleLoginHandler
from regsvc.api.legacy.server import AbsoluteDownloadsHandler, FrontEndConfigHandler, ServerWithPlayersHandler
from regsvc.api.legacy.status import ProxyReviewStatusHandler, ProxyUserStatusHandler, WhitelistHandler
from regsvc.api.routes import Route

_REPLACED: Final[Mapping[type[ApiHandler], type[ApiHandler]]] = {
    AuditsHandler: PlainAuditsHandler,
    ChangePasswordHandler: ChangePasswordHereHandler,
    ConfigHandler: FrontEndConfigHandler,
    DownloadsHandler: AbsoluteDownloadsHandler,
    LoginHandler: SingleLoginHandler,
    ReviewStatusHandler: ProxyReviewStatusHandler,
    SendCodeHandler: SendAnyCodeHandler,
    ServerStatusHandler: ServerWithPlayersHandler,
    UpdateUserHandler: UpdateByCodeHandler,
    UserStatusHandler: ProxyUserStatusHandler,
    UsersHandler: UsersWithIdHandler,
}
_ADDED: Final = (Route("GET", "/api/check-whitelist", WhitelistHandler, Access.PUBLIC_WITH_ANY_TOKEN),)

_NEEDS_TO_KNOW: Final = "/api/user/status"
"""The public path where front ends notice that their session has ended."""


def legacy_routes(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the table with handlers that translate; on public routes, an invalid token counts as none."""
    translated = (
        replace(route, handler=_REPLACED.get(route.handler, route.handler), access=_access_of(route))
        for route in routes
    )
    return (*translated, *_ADDED)


def _access_of(route: Route) -> Access:
    is_lenient = route.access is Access.PUBLIC and route.path != _NEEDS_TO_KNOW
    return Access.PUBLIC_WITH_ANY_TOKEN if is_lenient else route.access
