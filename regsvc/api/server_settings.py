"""Admin routes for settings that cannot wait for a shell: whether registration is open, and the announcement."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    EpochMilliseconds,
    Language,
    MessageReply,
    Output,
    Reply,
    Request,
    epoch_milliseconds,
    to_datetime,
)
from regsvc.api.route import Routes
from regsvc.core.errors import InvalidField
from regsvc.core.rights import Permission
from regsvc.runtime.settings import MAX_ANNOUNCEMENT

ROUTES: Final = Routes()

Text = Annotated[str, Meta(max_length=MAX_ANNOUNCEMENT, examples=["The server moves on Sunday."])]


class SettingChangeFields(Output, frozen=True, kw_only=True):
    """The last change of a setting."""

    by: Annotated[str, Meta(examples=["Olivia"])]
    at: EpochMilliseconds


class ServerReply(Reply, frozen=True, kw_only=True):
    """The settings in force. `mayOpen` is false where the config says that registration is closed."""

    is_open: bool
    may_open: bool
    opens_at: EpochMilliseconds | None
    registration_changed: SettingChangeFields | None
    announcements: Annotated[
        dict[str, str],
        Meta(description="Texts by language; empty: that of the config.", examples=[{"en": "We move on Sunday."}]),
    ]
    configured_announcement: Annotated[str, Meta(examples=["The server moves on Sunday."])]
    announcement_changed: SettingChangeFields | None
    languages: list[Language]


class RegistrationSettingRequest(Request, frozen=True, kw_only=True):
    """Whether registration is open; a closed one may open by itself at `opensAt`."""

    open: bool
    opens_at: EpochMilliseconds | None = None


class AnnouncementRequest(Request, frozen=True, kw_only=True):
    """The announcement by language; without any text, that of the config is shown."""

    texts: Annotated[dict[str, Text], Meta(examples=[{"en": "The server moves on Sunday."}])]


@ROUTES.add("GET", "/api/admin/server", Permission.SYSTEM_READ)
async def show_server(call: ApiHandler) -> ServerReply:
    """Show whether registration is open, and the announcement."""
    services, live = call.services, call.services.live
    await call.run(services.settings.load)
    changes = {
        name: SettingChangeFields(by=change.by, at=epoch_milliseconds(change.at) or 0)
        for name, change in services.settings.changes.items()
    }
    return ServerReply(
        is_open=live.current.registration.open,
        may_open=live.given.registration.open,
        opens_at=epoch_milliseconds(live.opens_at),
        registration_changed=changes.get("registration"),
        announcements=dict(live.settings.announcements),
        configured_announcement=live.given.server.in_language(live.given.server.announcement, call.language),
        announcement_changed=changes.get("announcement"),
        languages=services.translations.languages,
    )


@ROUTES.add("POST", "/api/admin/server/registration", Permission.SETTINGS_WRITE)
async def set_registration(call: ApiHandler, request: RegistrationSettingRequest) -> MessageReply:
    """Open or close registration, on other daemons within 15 seconds. The config wins where it says closed."""
    set_it = call.services.settings.set_registration
    await call.run(set_it, request.open, to_datetime(request.opens_at), call.principal.actor)
    is_open = call.services.config.registration.open
    key = "registration_open" if is_open else "registration_stays_closed" if request.open else "registration_closed"
    return MessageReply(message=call.message(key))


@ROUTES.add("POST", "/api/admin/server/announcement", Permission.SETTINGS_WRITE)
async def set_announcement(call: ApiHandler, request: AnnouncementRequest) -> MessageReply:
    """Set the announcement above the pages of players, by language."""
    if not request.texts.keys() <= set(call.services.translations.languages):
        raise InvalidField("texts")
    await call.run(call.services.settings.set_announcement, request.texts, call.principal.actor)
    return MessageReply(message=call.message("announcement_set"))
