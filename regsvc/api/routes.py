"""The route table of the whole API, in the order of the reference."""

from __future__ import annotations

from regsvc.api import (
    admin,
    admin_users,
    applications,
    chat,
    config,
    events,
    game_server,
    login,
    openapi,
    questionnaire,
    registration,
    review,
    server_settings,
    team,
    team_chat,
    users,
)
from regsvc.api.legacy.aliases import with_aliases

ROUTES = with_aliases(
    (
        *openapi.ROUTES,
        *config.ROUTES,
        *registration.ROUTES,
        *questionnaire.ROUTES,
        *applications.ROUTES,
        *login.ROUTES,
        *users.ROUTES,
        *chat.ROUTES,
        *game_server.ROUTES,
        *admin_users.ROUTES,
        *review.ROUTES,
        *team.ROUTES,
        *team_chat.ROUTES,
        *server_settings.ROUTES,
        *admin.ROUTES,
        *events.ROUTES,
    )
)
