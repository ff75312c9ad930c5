"""Settings that cannot wait for a shell: whether registration is open, and the announcement. Kept in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta
from peewee import Database, fn

from regsvc.config.live import LiveConfig, TeamSettings
from regsvc.core.clock import SKEW, Clock, epoch_ms, from_epoch_ms
from regsvc.core.errors import InvalidField
from regsvc.core.rights import Permission
from regsvc.core.shapes import EpochMilliseconds, Moment, Output, to_datetime
from regsvc.database.audit import AUTOMATIC, SYNC, Actor, Audit
from regsvc.database.bulk import upsert_query
from regsvc.database.models import AWAITS_REVIEW, Review, Setting, User
from regsvc.http.messages import Language, MessageReply, Reply
from regsvc.http.route import Routes

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_REGISTRATION: Final = "registration"
_ANNOUNCEMENT: Final = "announcement"
_PAUSE: Final = "pause"
MAX_ANNOUNCEMENT: Final = 2000


class SettingChangeFields(Output, frozen=True):
    """The last change of a setting."""

    by: Annotated[str, Meta(examples=["Olivia"])]
    at: Moment


class ServerSettings:
    """The settings in the database, which all its daemons follow. Blocking: for a worker thread."""

    def __init__(self, database: Database, live: LiveConfig, audit: Audit, now: Clock) -> None:
        self._database = database
        self._live = live
        self._audit = audit
        self._now = now
        self.changes: Mapping[str, SettingChangeFields] = {}
        """The last change of each setting, by name."""
        self.tell_of_pause: Callable[[], None] = lambda: None
        """Tells the team, in the transaction in which a pause begins."""
        self._loaded: dict[str, str] = {}
        self._loading = Lock()  # else what one thread has read could replace what another one read later

    def follow(self) -> None:
        """Load what another daemon has stored, and what has come due."""
        rows: Any = Setting.select(Setting.name, Setting.value).tuples()
        if dict(rows) != self._loaded or self.has_time_come():
            self.load()

    def follow_team(self) -> None:
        """Close registration if the team lets applications wait for too long, and open it with their next decision.

        A person who opens or closes registration ends the pause: they have looked, and the wait begins anew.
        """
        after, registration = self._live.given.registration.pause_after, self._live.current.registration
        if after is None:
            return
        pause = Setting.get_or_none(Setting.name == _PAUSE)
        if pause is None and registration.open and registration.approval and self._has_stood_still(after):
            self._pause()
        elif pause is not None and self._is_pause_over(pause.changed_at, after):
            with self._database.atomic():
                if _end_pause():  # else another daemon was faster
                    self._audit.record("settings.changed", AUTOMATIC, detail={"setting": _PAUSE, "open": True})
            self.load()

    def _pause(self) -> None:
        row: dict[Any, Any] = {Setting.name: _PAUSE, Setting.value: "{}", Setting.changed_by: AUTOMATIC.name}
        begin = Setting.insert({**row, Setting.changed_at: self._now()}).on_conflict_ignore().as_rowcount()
        with self._database.atomic():
            if begin.execute():  # else another daemon was faster, and has told the team
                self._audit.record("settings.changed", AUTOMATIC, detail={"setting": _PAUSE, "open": False})
                self.tell_of_pause()
        self.load()

    def _has_stood_still(self, after: timedelta) -> bool:
        """Return whether an application has waited for so long, in which the team decided and set nothing."""
        since, changed = self._now() - after, self.changes.get(_REGISTRATION)
        if changed is not None and changed.at > since:
            return False
        waits = AWAITS_REVIEW & (fn.COALESCE(User.answered_at, User.created_at) <= since)
        return bool(User.select().where(waits).exists()) and not _has_decided(since)

    def _is_pause_over(self, began_at: datetime, after: timedelta) -> bool:
        """Return whether the team decided, also while the pause began, or nothing waits; or the clock was set back."""
        is_late = began_at > self._now() + SKEW
        return is_late or _has_decided(began_at - after) or not User.select().where(AWAITS_REVIEW).exists()

    def has_time_come(self) -> bool:
        """Return whether registration is to open by itself now; `follow` opens it. Asks no database."""
        return self._live.has_time_come(self._now())

    def load(self) -> None:
        """Put what is stored in force here. A value that cannot be read counts for nothing."""
        with self._loading:
            rows = {row.name: row for row in Setting.select()}
            self._loaded = {name: row.value for name, row in rows.items()}
            registration, announcement = _read(rows.get(_REGISTRATION)), _read(rows.get(_ANNOUNCEMENT))
            settings = TeamSettings(
                is_open=registration.get("open") is not False,
                opens_at=_read_moment(registration.get("opensAt")),
                is_paused=_PAUSE in rows and self._live.given.registration.pause_after is not None,
                announcements={str(language): str(text) for language, text in announcement.items()},
            )
            self.changes = {name: SettingChangeFields(row.changed_by, row.changed_at) for name, row in rows.items()}
            self._live.apply_settings(settings, self._now())

    def set_registration(self, is_open: bool, opens_at: datetime | None, by: Actor) -> None:
        """Open or close registration; a closed one may open by itself. Raises `InvalidField` for a time in the past."""
        if opens_at is not None and (is_open or opens_at <= self._now()):
            raise InvalidField("opensAt")
        with self._database.atomic():
            _end_pause()
            value = {"open": is_open, "opensAt": None if opens_at is None else epoch_ms(opens_at)}
            self._store(_REGISTRATION, value, by)
        self.load()

    def set_announcement(self, texts: Mapping[str, str], by: Actor) -> None:
        """Set the announcement by language; empty texts are left out, and without any that of the config is shown.

        Raises `InvalidField` for a text that is too long.
        """
        if any(len(text) > MAX_ANNOUNCEMENT for text in texts.values()):
            raise InvalidField("texts")
        self._store(_ANNOUNCEMENT, {language: text.strip() for language, text in texts.items() if text.strip()}, by)
        self.load()

    def _store(self, name: str, value: dict[str, Any], by: Actor) -> None:
        row: dict[Any, Any] = {
            Setting.name: name,
            Setting.value: json.dumps(value, ensure_ascii=False),
            Setting.changed_by: by.name,
            Setting.changed_at: self._now(),
        }
        overwrite = (Setting.value, Setting.changed_by, Setting.changed_at)
        with self._database.atomic():
            upsert_query(Setting, [row], unique=(Setting.name,), overwrite=overwrite).execute()
            self._audit.record("settings.changed", by, detail={"setting": name, **value})


def _has_decided(since: datetime) -> bool:
    """Return whether anybody of the team has decided about a user after this moment."""
    by_team = Review.operator.not_in((SYNC.name, AUTOMATIC.name)) & (Review.operator != Review.username)
    return bool(Review.select().where(Review.reviewed_at > since, by_team).exists())


def _end_pause() -> bool:
    """End a pause in the caller's transaction; returns whether there was one."""
    return bool(Setting.delete().where(Setting.name == _PAUSE).execute())


def _read_moment(written: object) -> datetime | None:
    try:
        return from_epoch_ms(written) if isinstance(written, int) else None
    except OverflowError:  # out of range
        return None


def _read(row: Setting | None) -> dict[str, Any]:
    try:
        value = {} if row is None else json.loads(row.value)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


Text = Annotated[str, Meta(max_length=MAX_ANNOUNCEMENT, examples=["The server moves on Sunday."])]


class ServerReply(Reply, frozen=True, kw_only=True):
    """The settings in force. `mayOpen` is false where the config says that registration is closed."""

    is_open: bool
    may_open: bool
    opens_at: Moment | None
    is_paused: Annotated[
        bool, Meta(description="Closed by itself until the team decides about applications (registration.pause_after).")
    ]
    registration_changed: SettingChangeFields | None
    announcements: Annotated[
        dict[str, str],
        Meta(description="Texts by language; empty: that of the config.", examples=[{"en": "We move on Sunday."}]),
    ]
    configured_announcement: Annotated[str, Meta(examples=["The server moves on Sunday."])]
    announcement_changed: SettingChangeFields | None
    languages: list[Language]


@ROUTES.add("GET", "/api/admin/server", Permission.SYSTEM_READ)
async def show_server(call: Call, settings: ServerSettings) -> ServerReply:
    """Show whether registration is open, and the announcement."""
    live = call.live
    await call.run(settings.load)
    changes = settings.changes
    return ServerReply(
        is_open=live.current.registration.open,
        may_open=live.given.registration.open,
        opens_at=live.opens_at,
        is_paused=live.is_paused,
        registration_changed=changes.get("registration"),
        announcements=dict(live.settings.announcements),
        configured_announcement=live.given.server.in_language(live.given.server.announcement, call.language),
        announcement_changed=changes.get("announcement"),
        languages=call.translations.languages,
    )


@ROUTES.add("POST", "/api/admin/server/registration", Permission.SETTINGS_WRITE)
async def set_registration(
    call: Call, settings: ServerSettings, *, open: bool, opens_at: EpochMilliseconds | None = None
) -> MessageReply:
    """Open or close registration, on other daemons within 15 seconds. The config wins where it says closed.

    RegistrationSettingRequest: Whether registration is open; a closed one may open by itself at `opensAt`.
    """
    set_it = settings.set_registration
    await call.run(set_it, open, to_datetime(opens_at), call.principal.actor)
    is_open = call.config.registration.open
    key = "registration_open" if is_open else "registration_stays_closed" if open else "registration_closed"
    return MessageReply(message=call.message(key))


@ROUTES.add("POST", "/api/admin/server/announcement", Permission.SETTINGS_WRITE)
async def set_announcement(
    call: Call,
    settings: ServerSettings,
    *,
    texts: Annotated[dict[str, Text], Meta(examples=[{"en": "The server moves on Sunday."}])],
) -> MessageReply:
    """Set the announcement above the pages of players, by language.

    AnnouncementRequest: The announcement by language; without any text, that of the config is shown.
    """
    if not texts.keys() <= set(call.translations.languages):
        raise InvalidField("texts")
    await call.run(settings.set_announcement, texts, call.principal.actor)
    return MessageReply(message=call.message("announcement_set"))
