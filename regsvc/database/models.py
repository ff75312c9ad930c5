"""Our tables as peewee models. The migrations create them; a test compares the two.

Bound to a database by `bind_models` when it is opened. Rows stay inside the services: handlers get records or plain
data.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal

from peewee import (
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    Database,
    Field,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)

from regsvc.core.email_address import mailbox_of

GENERATED: Final = frozenset({"access", "due_at", "is_asked", "is_edited", "look_key", "mailbox", "shown_as"})
"""Columns that the database computes from others."""
UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Read in place of a required date that cannot be read."""


class UtcDateTimeField(Field):
    """An aware UTC datetime; a DATETIME(3) in SQL, on SQLite the same as text that sorts by time."""

    field_type = "DATETIME(3)"

    def db_value(self, value: datetime | None) -> str | None:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(" ", "milliseconds")[:-6]  # without the offset

    def python_value(self, value: Any) -> datetime | None:
        """Return the stored moment; of a value that is none, which SQL users may have typed, None or `UNKNOWN`.

        A refusal here would stop every list, export and run for one mistyped row.
        """
        if value is None:
            return None
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC)
        text = str(value)  # a date with or without time, as `db_value` writes it
        if text[4:5] == "-" and text[7:8] == "-" and text[10:11] in ("", " "):
            with suppress(ValueError):  # also of a zero date, which MySQL's driver returns as text
                moment = datetime.fromisoformat(text)
                if moment.tzinfo is None:
                    return moment.replace(tzinfo=UTC)
        return None if self.null else UNKNOWN


# `SyncRecord.presence`: whether the name had a row in AuthMe's table when both sides were last in sync.
UNASKED: Final = "unasked"
ABSENT: Final = "absent"
PRESENT: Final = "present"
GONE: Final = "gone"

# `SyncRecord.intent`: the change that is about to be written to AuthMe's row.
PROVISION: Final = "provision"

PASSWORD: Final = "password"  # noqa: S105 - an intent, not a secret
OPEN: Final = "open"

# `SyncRecord.kept_origin`: whether the hash that a lock replaced is known to be the user's own.
VERIFIED: Final = "verified"
UNVERIFIED: Final = "unverified"

PluginState = Literal["synced", "absent", "locked", "conflict", "returned", "pending", "off"]
"""`SyncRecord.plugin_state`, as the user list shows it under `plugin`."""

# `Allowed.state`: whether the name is on the game's allowlist.
ADD: Final = "add"
LISTED: Final = "listed"
TAKEN_OFF: Final = "taken_off"
REMOVE: Final = "remove"
AllowlistState = Literal["add", "listed", "taken_off", "remove"]

# `User.status`.
PENDING: Final = "pending"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"
BANNED: Final = "banned"
STATUSES: Final = (PENDING, APPROVED, REJECTED, BANNED)
ENDED: Final = "ended"
"""`User.access` of an approved user whose membership has ended; it is no status."""


def _table_of(model: Any) -> str:
    """Return the name of the model's table: that of the class in small letters, unless it names another one."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", model.__name__).lower()
    return f"regsvc_{getattr(model, 'table', words)}"


class BaseModel(Model):
    """Base of all our models; bound to no database until one is opened.

    The migrations also make indexes of several columns, of which the models say nothing.
    """

    class Meta:
        table_function = _table_of


class Installation(BaseModel):
    """One row: the identity of this installation and the location of its database."""

    id = IntegerField(primary_key=True)
    installation_id = CharField(36)
    home = CharField(255)
    key_fingerprint = CharField(64)
    first_started_at = UtcDateTimeField()
    purging_audit_before = UtcDateTimeField(null=True)
    digested_at = UtcDateTimeField(null=True)
    digested_user_id = BigIntegerField(null=True)
    signing_key_fingerprint = CharField(64, null=True)
    players_table = CharField(255, null=True)


class Migration(BaseModel):
    """A migration that has been applied."""

    number = IntegerField(primary_key=True)
    name = CharField(100)
    applied_at = UtcDateTimeField()


class Lease(BaseModel):
    """A task that only one process may run at a time, and the process that holds it."""

    name = CharField(40, primary_key=True)
    holder = CharField(80)
    expires_at = UtcDateTimeField()


class User(BaseModel):
    """A user: whether they may play, why, and since when."""

    id = BigAutoField()
    username = CharField(255)
    username_key = CharField(255, unique=True)
    email = CharField(320, null=True)
    email_key = CharField(320, null=True, unique=True)
    is_email_verified = BooleanField(default=False)
    status = CharField(16)
    applied_status = CharField(16)
    is_edited = BooleanField()  # generated: status <> applied_status
    language = CharField(16, null=True)
    platform = CharField(16, default="java")
    password_hash = CharField(255, null=True)
    password_salt = CharField(255, null=True)
    password_algorithm = CharField(32, null=True)
    password_set_at = UtcDateTimeField(null=True)
    token_generation = IntegerField(default=0)
    origin = CharField(16)
    registration_ip = CharField(45, null=True)
    invited_by = CharField(255, null=True)
    created_at = UtcDateTimeField()
    reason = TextField(null=True)
    reviewed_by = CharField(255, null=True)
    reviewed_at = UtcDateTimeField(null=True)
    banned_from = CharField(16, null=True)
    ban_expires_at = UtcDateTimeField(null=True)
    may_reapply = BooleanField(default=False)
    last_login_at = UtcDateTimeField(null=True)
    totp_step = BigIntegerField(null=True)
    totp_nonce = CharField(32, null=True)
    totp_enabled_at = UtcDateTimeField(null=True)
    role = CharField(16, null=True)
    applied_role = CharField(16, null=True)
    look_key = CharField(255, index=True)  # generated: the same for names that look alike
    mailbox = CharField(320, null=True, index=True)  # generated: that of email_key
    asked_at = UtcDateTimeField(null=True)
    answered_at = UtcDateTimeField(null=True)
    is_asked = BooleanField()  # generated: asked_at IS NOT NULL
    member_until = UtcDateTimeField(null=True)
    applied_until = UtcDateTimeField(null=True)
    lapses_at = UtcDateTimeField(null=True)
    lapse = CharField(8, null=True)
    ended_because = CharField(8, null=True)
    applied_ended = CharField(8, null=True)
    ended_at = UtcDateTimeField(null=True, index=True)
    renewed_at = UtcDateTimeField(null=True)
    reminded_at = UtcDateTimeField(null=True)
    stay_asked_at = UtcDateTimeField(null=True, index=True)
    member_for = CharField(32, null=True)
    due_at = UtcDateTimeField(null=True, index=True)  # generated: when a ban or the membership ends next
    access = CharField(16)  # generated: the applied status, or `ENDED`
    changed_at = UtcDateTimeField(null=True, index=True)  # written by the database

    @property
    def unanswered_since(self) -> datetime | None:
        """When a pending user was asked what they have not answered yet, or None."""
        return self.asked_at if self.status == PENDING else None

    @property
    def asks_to_stay(self) -> bool:
        """Whether a member has asked to stay, and it is not decided."""
        return self.status == APPROVED and self.stay_asked_at is not None

    @property
    def proven_key(self) -> str | None:
        """The key of the address that the user has proven, or None; anybody may type another one in the game."""
        return self.email_key if self.is_email_verified else None

    @property
    def proven_mailbox(self) -> str | None:
        """The mailbox to which the proven address leads, or None: one person has it under any number of addresses."""
        return None if self.proven_key is None else mailbox_of(self.proven_key)


AWAITS_REVIEW: Final[Any] = (User.status == PENDING) & (User.is_asked == False)  # noqa: E712 - SQL
"""Condition: a user waits for the team, and not the team for an answer."""
IS_MEMBER: Final[Any] = (User.status == APPROVED) & User.ended_because.is_null()
"""Condition: a user is approved, and the membership has not ended."""
ASKS_TO_STAY: Final[Any] = User.stay_asked_at.is_null(False) & (User.status == APPROVED)
"""Condition: a member asked to stay, and the team has not decided."""
IS_ASKED: Final[Any] = (User.status == PENDING) & (User.is_asked == True)  # noqa: E712 - SQL
"""Condition: the team waits for a pending user's answer."""


class Review(BaseModel):
    """A decision about a user, kept after the user is gone."""

    id = BigAutoField()
    user_id = BigIntegerField()
    username = CharField(255)
    username_key = CharField(255, index=True)
    transition = CharField(16)
    status_before = CharField(16)
    status_after = CharField(16, null=True)
    reason = TextField(null=True)
    ban_expires_at = UtcDateTimeField(null=True)
    operator = CharField(255)
    reviewed_at = UtcDateTimeField()
    email_key = CharField(320, null=True, index=True)
    answers = TextField(null=True)
    mailbox = CharField(320, null=True, index=True)  # generated: that of email_key


class Note(BaseModel):
    """A note that the team wrote about a user, kept after the user is gone."""

    id = BigAutoField()
    user_id = BigIntegerField()
    username_key = CharField(255, index=True)
    email_key = CharField(320, null=True, index=True)
    author = CharField(255)
    text = TextField()
    created_at = UtcDateTimeField()


class AskedQuestion(BaseModel):
    """A question that the team asked an applicant, and the answer; kept after the user is gone."""

    table = "question"

    id = BigAutoField()
    user_id = BigIntegerField()
    username_key = CharField(255, index=True)
    email_key = CharField(320, null=True, index=True)
    author = CharField(255)
    question = TextField()
    answers = TextField(null=True)
    asked_at = UtcDateTimeField()
    answer = TextField(null=True)
    answered_at = UtcDateTimeField(null=True)


class SyncRecord(BaseModel):
    """The sync record of a name: the last synced state of its row in AuthMe's table, and pending intents."""

    username_key = CharField(255, primary_key=True)
    user_id = BigIntegerField(null=True, index=True)  # no foreign key: it outlives a user deleted by SQL
    presence = CharField(8)
    base_hash = CharField(255, null=True)
    base_salt = CharField(255, null=True)
    base_email = CharField(255, null=True)
    base_realname = CharField(255, null=True)
    base_regdate = BigIntegerField(null=True)
    intent = CharField(16, null=True)  # what is about to be written to AuthMe's row
    intent_hash = CharField(255, null=True)
    intent_salt = CharField(255, null=True)
    intent_regdate = BigIntegerField(null=True)
    lock_reason = CharField(16, null=True)
    locked_at = UtcDateTimeField(null=True)
    kept_hash = CharField(255, null=True)
    kept_origin = CharField(16, null=True)
    kept_premium_uuid = CharField(36, null=True)
    kept_group = IntegerField(null=True)
    kicked_login = BigIntegerField(null=True)
    tombstone_hash = CharField(255, null=True)
    tombstone_regdate = BigIntegerField(null=True)
    tombstone_at = UtcDateTimeField(null=True)
    conflict = CharField(255, null=True)
    plugin_state = CharField(16)
    plugin_since = UtcDateTimeField()
    earlier_hashes = CharField(64, null=True)
    changed_at = UtcDateTimeField(null=True, index=True)  # written by the database


class Allowed(BaseModel):
    """A name on the game's allowlist, or one that is to be added or removed."""

    table = "allowlist"

    username_key = CharField(255, primary_key=True)
    username = CharField(255)
    state = CharField(16, index=True)
    uuid = CharField(36, null=True)
    reason = CharField(16, null=True)
    since = UtcDateTimeField()
    user_id = BigIntegerField(null=True)
    shown_as = CharField(16)  # generated from state and reason, as `Gates.listed_state`


class StoredBucket(BaseModel):
    """Checksum of one bucket of AuthMe's rows, as the last run of the sync saw it."""

    table = "bucket"

    bucket = IntegerField(primary_key=True)
    row_count = IntegerField()
    checksum = BigIntegerField()


class SyncState(BaseModel):
    """One row: the conditions under which the checksums were stored."""

    id = IntegerField(primary_key=True)
    policy = CharField(64)
    operators = TextField()
    compared_at = UtcDateTimeField()


class Session(BaseModel):
    """An access token that was issued; identified by its `jti` only."""

    jti = CharField(32, primary_key=True)
    user = ForeignKeyField(User, on_delete="CASCADE", backref="sessions")
    audience = CharField(8)
    token_generation = IntegerField()
    ip = CharField(45, null=True)
    created_at = UtcDateTimeField()
    last_seen_at = UtcDateTimeField()
    expires_at = UtcDateTimeField()
    has_second_factor = BooleanField(default=False)
    device = CharField(64, null=True)


class Token(BaseModel):
    """An API token. The token itself is stored as a hash only."""

    id = BigAutoField()
    name = CharField(40)
    active_name = CharField(40, null=True, unique=True)
    public_part = CharField(10, unique=True)
    hash = CharField(64)
    permissions = CharField(255)
    made_by = CharField(255, null=True)
    maker = CharField(255)
    created_at = UtcDateTimeField()
    expires_at = UtcDateTimeField(null=True)
    last_used_at = UtcDateTimeField(null=True)
    revoked_at = UtcDateTimeField(null=True)
    has_second_factor = BooleanField(default=False)


class Invitation(BaseModel):
    """An invitation to register. Its token is derived from the nonce and is not stored."""

    id = BigAutoField()
    nonce = CharField(32)
    grants = CharField(64)
    uses = IntegerField()
    used = IntegerField()
    made_by = CharField(255, null=True)
    maker = CharField(255)
    created_at = UtcDateTimeField()
    expires_at = UtcDateTimeField()
    revoked_at = UtcDateTimeField(null=True)
    token_id = BigIntegerField(null=True)
    has_second_factor = BooleanField(default=False)
    member_for = CharField(32, null=True)


class Setting(BaseModel):
    """A setting that is changed while the daemons run; all others are in the config."""

    name = CharField(40, primary_key=True)
    value = TextField()
    changed_by = CharField(255)
    changed_at = UtcDateTimeField()


class KnownClient(BaseModel):
    """A client from which a user logged in: failures of other clients do not slow it down."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="known_clients")
    client = CharField(45)
    last_login_at = UtcDateTimeField()


class PlayerAddress(BaseModel):
    """An address from which a user's player logged in, or registered, in the game, as AuthMe's table has it."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="game_addresses")
    source = CharField(8)
    address = CharField(45, index=True)
    seen_at = UtcDateTimeField(index=True)


class Reader(BaseModel):
    """A member of the team, and the user who is open at theirs."""

    reader = CharField(255, primary_key=True)
    name = CharField(255)
    username_key = CharField(255)
    seen_at = UtcDateTimeField()


class RecoveryCode(BaseModel):
    """A code, not used yet, that stands in for the second factor once. Stored as a keyed hash only."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="recovery_codes")
    code_hash = CharField(64)
    created_at = UtcDateTimeField()


class Verification(BaseModel):
    """A verification code that was issued. The code itself is derived, never stored."""

    id = BigAutoField()
    email_key = CharField(320)
    purpose = CharField(16)
    nonce = CharField(32)
    tries = IntegerField(default=0)
    client = CharField(45, default="")
    other_tries = IntegerField(default=0)
    created_at = UtcDateTimeField()
    handed_over_at = UtcDateTimeField(null=True)
    redeemed_at = UtcDateTimeField(null=True)


class Link(BaseModel):
    """A link that sets a password, mailed or handed over by an operator. Its token is derived, never stored."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="links")
    purpose = CharField(16)
    email_key = CharField(320)
    nonce = CharField(32)
    created_at = UtcDateTimeField()
    expires_at = UtcDateTimeField()
    redeemed_at = UtcDateTimeField(null=True)
    issued_by = CharField(255, null=True)
    maker = CharField(255, null=True)
    token_id = BigIntegerField(null=True)
    has_second_factor = BooleanField(default=False)
    undoes = BooleanField(default=False)


class ChatRequest(BaseModel):
    """An authorization request that is still unanswered. Its state is stored as a keyed hash only."""

    id = BigAutoField()
    state_hash = CharField(64, unique=True)
    token_hash = CharField(64)
    session = ForeignKeyField(
        Session, null=True, on_delete="CASCADE", backref="chat_requests", column_name="session_jti"
    )
    session_jti: str | None  # peewee's name for what the key holds
    created_at = UtcDateTimeField(index=True)


class ChatLink(BaseModel):
    """A chat account whose ownership was proved, claimed by a user or not yet."""

    id = BigAutoField()
    user = ForeignKeyField(User, null=True, unique=True, on_delete="CASCADE", backref="chat_links")
    user_id: int | None  # peewee's name for what the key holds
    claimed_account = CharField(300, null=True, unique=True)
    platform = CharField(16)
    account_id = CharField(255)
    username = CharField(255)
    discriminator = CharField(16)
    avatar = CharField(255, null=True)
    global_name = CharField(255, null=True)
    token_hash = CharField(64, unique=True)
    linked_at = UtcDateTimeField()
    roles_seen_at = UtcDateTimeField(null=True)
    roles_missed_at = UtcDateTimeField(null=True)


class TeamChatMessage(BaseModel):
    """A message in a chat of the team about an application; the number by which people there name it is its id."""

    id = BigAutoField()
    chat = CharField(64)
    user_id = BigIntegerField()
    username_key = CharField(255, index=True)
    remote_id = CharField(64, null=True)
    shown = CharField(64)
    version = CharField(16)
    is_open = BooleanField()
    changed_at = UtcDateTimeField()


class TeamChatLink(BaseModel):
    """An account on a chat platform that acts for a member of the team, or the code that will link one."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="team_chat_links")
    user_id: int  # peewee's name for what the key holds
    platform = CharField(16, null=True)
    account = CharField(300, null=True, unique=True)
    name = CharField(255, null=True)
    code_hash = CharField(64, null=True, unique=True)
    created_at = UtcDateTimeField()
    linked_at = UtcDateTimeField(null=True)
    has_second_factor = BooleanField(default=False)


class TeamChatEvent(BaseModel):
    """Something that a chat platform sent us, remembered for a while so that it counts once."""

    id = CharField(80, primary_key=True)
    received_at = UtcDateTimeField(index=True)


class KnownOperator(BaseModel):
    """An operator of the game server as the daemon last saw them, or a former one."""

    table = "operator"

    username_key = CharField(255, primary_key=True)
    username = CharField(255)
    uuid = CharField(36, null=True)
    level = IntegerField()
    note = CharField(120, null=True)
    left_at = UtcDateTimeField(null=True)


class StoredQuestionnaire(BaseModel):
    """A completed questionnaire. The token that refers to it is derived, never stored."""

    table = "questionnaire_result"

    id = BigAutoField()
    nonce = CharField(32)
    user = ForeignKeyField(User, null=True, unique=True, on_delete="CASCADE", backref="questionnaires")
    user_id: int | None  # peewee's name for what the key holds
    score = IntegerField()
    max_score = IntegerField()
    pass_score = IntegerField()
    is_passed = BooleanField()
    requires_review = BooleanField()
    summary = CharField(1000)
    answers = TextField()
    submitted_at = UtcDateTimeField()
    expires_at = UtcDateTimeField(null=True, index=True)
    answer_seconds = IntegerField(null=True)


class OutboxEntry(BaseModel):
    """A side effect that is promised in the transaction of its cause, and delivered after it."""

    table = "outbox"

    id = BigAutoField()
    kind = CharField(16, default="mail")
    template = CharField(40)
    recipient = CharField(320)
    recipient_key = CharField(320)
    language = CharField(16)
    user_id = BigIntegerField(null=True)
    row_id = BigIntegerField(null=True)
    link_id = BigIntegerField(null=True)
    attempts = IntegerField(default=0)
    created_at = UtcDateTimeField()
    next_attempt_at = UtcDateTimeField(null=True)
    done_at = UtcDateTimeField(null=True)
    outcome = CharField(16, null=True)
    last_error = CharField(500, null=True)
    payload = TextField(null=True)


class RateLimitWindow(BaseModel):
    """Number of hits of a rate limit in its current window."""

    table = "rate_limit"

    id = BigAutoField()
    scope = CharField(40)
    subject = CharField(320)
    period_seconds = IntegerField()
    started_at = UtcDateTimeField()
    ends_at = UtcDateTimeField(index=True)
    hits = IntegerField()


class AuditEntry(BaseModel):
    """An audit record. Append-only; only `occurrences` of a counted one may grow."""

    table = "audit"

    id = BigAutoField()
    action = CharField(40)
    operator = CharField(255)
    target = CharField(255, null=True)
    detail = TextField(null=True)
    ip = CharField(45, null=True)
    tally = CharField(64, null=True, unique=True)
    occurrences = IntegerField(default=1)
    created_at = UtcDateTimeField(index=True)


MODELS: Final[tuple[type[BaseModel], ...]] = (
    Installation,
    Migration,
    Lease,
    User,
    Review,
    Note,
    AskedQuestion,
    SyncRecord,
    Allowed,
    StoredBucket,
    SyncState,
    Session,
    Token,
    Invitation,
    Setting,
    KnownClient,
    PlayerAddress,
    Reader,
    RecoveryCode,
    Verification,
    Link,
    ChatRequest,
    ChatLink,
    TeamChatMessage,
    TeamChatLink,
    TeamChatEvent,
    KnownOperator,
    StoredQuestionnaire,
    OutboxEntry,
    RateLimitWindow,
    AuditEntry,
)


def bind_models(database: Database) -> None:
    """Bind the models to this database. A process uses one database of ours."""
    database.bind(MODELS)
