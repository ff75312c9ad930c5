"""Notes that the team writes about users; like reviews they are kept by name and address after a user is gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta
from peewee import Database

from regsvc.auth.rate_limits import DurableLimits, team_writes
from regsvc.core import errors
from regsvc.core.clock import Clock, to_milliseconds
from regsvc.core.errors import InvalidField, TooManyNotes, UserNotFound
from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import clean_lines, name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import select_rows, upsert_query
from regsvc.database.models import Note, Reader, User
from regsvc.http.messages import MessageReply
from regsvc.http.route import Routes, SentAs

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

MAX_NOTE: Final = 2000
MAX_NOTES: Final = 100
"""Notes about one user; those about earlier users of the name do not count."""
MAX_NAME: Final = 255
READS_FOR: Final = timedelta(seconds=30)


class NoteFields(Output, frozen=True):
    """A note of the team about this user, or about an earlier user with the same name or e-mail address."""

    text: Annotated[str, Meta(examples=["Plays with Bob."])]
    author: Annotated[str, Meta(examples=["Olivia"])]
    created_at: Moment
    is_same_user: bool


@dataclass(frozen=True)
class Notes:
    """Notes of the team. Blocking: for a worker thread."""

    database: Database
    limits: DurableLimits
    audit: Audit
    now: Clock

    def read(self, username: str, by: Actor) -> list[str]:
        """Note that a member of the team has this user open, or "" for nobody; return who else has.

        Each member has one row, which counts for half a minute: it is in the database, so that all daemons agree, and a
        closed browser needs to say nothing.
        """
        now, key = self.now(), name_key(by.name)
        name = name_key(username)[:MAX_NAME]  # lower case may be longer: no user has such a name
        row = {Reader.reader: key, Reader.name: by.name, Reader.username_key: name, Reader.seen_at: now}
        overwrite = (Reader.name, Reader.username_key, Reader.seen_at)
        upsert_query(Reader, [row], unique=(Reader.reader,), overwrite=overwrite).execute()
        if not name:
            self.forget_readers()
            return []
        is_there = (Reader.username_key == name) & (Reader.seen_at > now - READS_FOR)
        others = Reader.select(Reader.name).where(is_there, Reader.reader != key).order_by(Reader.reader)
        return [row.name for row in others]

    def forget_readers(self) -> int:
        """Delete what members of the team read when they closed their browsers; return how many it was."""
        return int(Reader.delete().where(Reader.seen_at <= self.now() - READS_FOR).execute())

    def add(self, username: str, written: str, by: Actor, member: str = "", *, is_attempt: bool = False) -> str:
        """Add a note and return the user's name. `member`: the name of the member of the team whose limit counts.

        `is_attempt`: whether the request may be sent again; the author's newest note is then not added twice. Raises
        `UserNotFound`, `TooManyNotes`, `RateLimited`, and `InvalidField` if it is empty or too long. The text is not in
        the audit log, which other people may read.
        """
        text = clean_lines(written).strip()
        if not 0 < len(text) <= MAX_NOTE:
            raise InvalidField("text")
        with self.database.atomic():
            key = name_key(username)
            select_rows(self.database, User, [User.id], User.username_key, [key], for_update=True)
            user = User.get_or_none(User.username_key == key)
            if user is None:
                raise UserNotFound
            about = (Note.username_key == key) & (Note.user_id == user.id)  # the name has an index
            newest = Note.select().where(about).order_by(Note.id.desc()).first() if is_attempt else None
            if newest is not None and (newest.author, newest.text) == (by.name, text):
                return str(user.username)
            if Note.select().where(about).count() >= MAX_NOTES:
                raise TooManyNotes
            self.limits.hit_all(team_writes(member))
            Note.insert(
                user_id=user.id,
                username_key=user.username_key,
                email_key=user.proven_key,
                author=by.name,
                text=text,
                created_at=to_milliseconds(self.now()),
            ).execute()
            self.audit.record("user.note_added", by, user.username)
        return str(user.username)


def list_notes(user: User, limit: int) -> list[NoteFields]:
    """Return the notes about this user and earlier users of the name or proven address, newest first."""
    belongs = Note.username_key == user.username_key
    if user.proven_key is not None:
        belongs = belongs | (Note.email_key == user.proven_key)
    rows = Note.select().where(belongs).order_by(Note.id.desc()).limit(limit)
    return [NoteFields(row.text, row.author, row.created_at, row.user_id == user.id) for row in rows]


@ROUTES.add(
    "POST",
    "/api/admin/user/note",
    Permission.USERS_REVIEW,
    errors.UserNotFound,
    errors.TooManyNotes,
    errors.RateLimited,
)
async def add_note(
    call: Call,
    notes: Notes,
    *,
    username: Username,
    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE, examples=["Plays with Bob."])],
) -> MessageReply:
    """Write a note about a user. Players are not shown notes, but the export of their data has them.

    NoteRequest: A note about a user, for the team.
    """
    by, add = call.principal, notes.add
    is_attempt = call.attempt_nonce is not None
    username = await call.run(add, username, text, by.actor, by.username, is_attempt=is_attempt)
    return MessageReply(message=call.message("note_added", username=username))


@ROUTES.add("POST", "/api/admin/user/reading", Permission.USERS_READ)
async def note_reading(
    call: Call, notes: Notes, *, username: Username = ""
) -> Annotated[list[str], Meta(examples=[["Olivia"]]), SentAs("readers", "ReadersReply")]:
    """Tell that you have a user open, every ten seconds, and learn who else has. It is forgotten after thirty.

    ReadingRequest: The user who is open at the caller's; empty: nobody.

    ReadersReply: The others of the team who have the user open.
    """
    return await call.run(notes.read, username, call.principal.actor)
