"""Our tables as peewee models. The migrations make them; a test compares the two.

Bound to a database by `bind_models` when it is opened. Rows never leave the rules: what crosses to a handler is a
record or plain data.
"""

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

UNASKED: Final = "unasked"

ABSENT: Final = "absent"

PRESENT: Final = "present"

GONE: Final = "gone"

PROVISION: Final = "provision"

PASSWORD: Final = "password"  # noqa: S105 - a wish, not a secret

OPEN: Final = "open"

VERIFIED: Final = "agreed"

UNVERIFIED: Final = "stranger"

PluginState = Literal["synced", "absent", "locked", "conflict", "returned", "pending", "off"]


PENDING: Final = "pending"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"
BANNED: Final = "banned"
STATUSES: Final = (PENDING, APPROVED, REJECTED, BANNED)


class UtcDateTimeField(Field):
    """An aware UTC datetime; in SQL a UTC DATETIME(3), on SQLite the same as text that sorts by time."""

    field_type = "DATETIME(3)"

    def db_value(self, value: datetime | None) -> str | None:
        if value is None:
            return None
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def python_value(self, value: Any) -> datetime | None:
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return moment.replace(tzinfo=UTC)


class BaseModel(Model):
    """What all our tables share: plain names, and no database before one is opened."""

    class Meta:
        legacy_table_names = False


class Installation(BaseModel):
    """One row: who we are and where our home is."""

    id = IntegerField(primary_key=True)
    installation_id = CharField(36)
    home = CharField(255)
    key_fingerprint = CharField(64)
    first_started_at = UtcDateTimeField()
    purging_audit_before = UtcDateTimeField(null=True)
    digested_at = UtcDateTimeField(null=True)
    digested_user_id = BigIntegerField(null=True)

    class Meta:
        table_name = "regsvc_installation"


class Migration(BaseModel):
    """A migration that has been applied."""

    number = IntegerField(primary_key=True)
    name = CharField(100)
    applied_at = UtcDateTimeField()

    class Meta:
        table_name = "regsvc_migration"


class Lease(BaseModel):
    """Which process may run a thing that only one may run."""

    name = CharField(40, primary_key=True)
    holder = CharField(80)
    expires_at = UtcDateTimeField()

    class Meta:
        table_name = "regsvc_lease"


class User(BaseModel):
    """Who may play, why, and since when."""

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
    created_at = UtcDateTimeField()
    reason = TextField(null=True)
    reviewed_by = CharField(255, null=True)
    reviewed_at = UtcDateTimeField(null=True)
    banned_from = CharField(16, null=True)
    ban_expires_at = UtcDateTimeField(null=True)
    last_login_at = UtcDateTimeField(null=True)
    totp_step = BigIntegerField(null=True)
    changed_at = UtcDateTimeField(null=True, index=True)  # written by the database

    class Meta:
        table_name = "regsvc_user"


class Review(BaseModel):
    """Every decision about a user, kept after the user is gone."""

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

    class Meta:
        table_name = "regsvc_review"


class Player(BaseModel):
    """What we know of the row in AuthMe's table that has this name: the agreement the sync reasons from."""

    username_key = CharField(255, primary_key=True)
    user_id = BigIntegerField(null=True, index=True)  # no foreign key: it outlives a user deleted by SQL
    presence = CharField(8)
    base_hash = CharField(255, null=True)
    base_salt = CharField(255, null=True)
    base_email = CharField(255, null=True)
    base_realname = CharField(255, null=True)
    base_regdate = BigIntegerField(null=True)
    intent = CharField(16, null=True, column_name="wish")  # what is about to be written to AuthMe's row
    intent_hash = CharField(255, null=True, column_name="wish_hash")
    intent_salt = CharField(255, null=True, column_name="wish_salt")
    intent_regdate = BigIntegerField(null=True, column_name="wish_regdate")
    lock_reason = CharField(16, null=True)
    locked_at = UtcDateTimeField(null=True)
    kept_hash = CharField(255, null=True)
    kept_origin = CharField(8, null=True)
    kept_premium_uuid = CharField(36, null=True)
    tombstone_hash = CharField(255, null=True)
    tombstone_regdate = BigIntegerField(null=True)
    tombstone_at = UtcDateTimeField(null=True)
    conflict = CharField(255, null=True)
    plugin_state = CharField(16)
    plugin_since = UtcDateTimeField()
    changed_at = UtcDateTimeField(null=True, index=True)  # written by the database

    class Meta:
        table_name = "regsvc_player"


class DigestBucket(BaseModel):
    """What the last run of the sync saw of the plugin's rows that fall into one bucket."""

    bucket = IntegerField(primary_key=True)
    row_count = IntegerField()
    checksum = BigIntegerField()

    class Meta:
        table_name = "regsvc_digest"


class SyncState(BaseModel):
    """One row: under which circumstances the digest was stored."""

    id = IntegerField(primary_key=True)
    policy = CharField(64)
    operators = TextField()
    user_count = BigIntegerField()
    user_ids = BigIntegerField()
    newest_id = BigIntegerField()
    compared_at = UtcDateTimeField()

    class Meta:
        table_name = "regsvc_sync_state"


class Session(BaseModel):
    """An access token that was issued; known by its `jti` only."""

    jti = CharField(32, primary_key=True)
    user = ForeignKeyField(User, on_delete="CASCADE", backref="sessions")
    audience = CharField(8)
    token_generation = IntegerField()
    ip = CharField(45, null=True)
    created_at = UtcDateTimeField()
    last_seen_at = UtcDateTimeField()
    expires_at = UtcDateTimeField()

    class Meta:
        table_name = "regsvc_session"


class KnownClient(BaseModel):
    """A client from which a user logged in: strangers' failures do not slow it down."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="known_clients")
    client = CharField(45)
    last_login_at = UtcDateTimeField()

    class Meta:
        table_name = "regsvc_known_client"
        indexes = ((("user", "client"), True),)


class Verification(BaseModel):
    """A verification code that was issued. The code itself is derived, never stored."""

    id = BigAutoField()
    email_key = CharField(320)
    purpose = CharField(16)
    nonce = CharField(32)
    tries = IntegerField(default=0)
    created_at = UtcDateTimeField()
    handed_over_at = UtcDateTimeField(null=True)
    redeemed_at = UtcDateTimeField(null=True)

    class Meta:
        table_name = "regsvc_verification"
        indexes = ((("email_key", "purpose"), False),)


class Link(BaseModel):
    """A mailed link that sets a password. Its token is derived, never stored."""

    id = BigAutoField()
    user = ForeignKeyField(User, on_delete="CASCADE", backref="links")
    purpose = CharField(16)
    email_key = CharField(320)
    nonce = CharField(32)
    created_at = UtcDateTimeField()
    expires_at = UtcDateTimeField()
    redeemed_at = UtcDateTimeField(null=True)

    class Meta:
        table_name = "regsvc_link"


class ChatRequest(BaseModel):
    """An authorization request that was begun and not answered yet. Its state is known by a keyed hash only."""

    id = BigAutoField()
    state_hash = CharField(64, unique=True)
    token_hash = CharField(64)
    session = ForeignKeyField(
        Session, null=True, on_delete="CASCADE", backref="chat_requests", column_name="session_jti"
    )
    session_jti: str | None  # peewee's name for what the key holds
    created_at = UtcDateTimeField(index=True)

    class Meta:
        table_name = "regsvc_chat_request"


class ChatLink(BaseModel):
    """A chat account that somebody proved to be his, claimed by a user or not yet."""

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

    class Meta:
        table_name = "regsvc_chat_link"


class StoredQuestionnaire(BaseModel):
    """A questionnaire that was answered. The token that stands for it is derived, never stored."""

    id = BigAutoField()
    nonce = CharField(32)
    user = ForeignKeyField(User, null=True, unique=True, on_delete="CASCADE", backref="questionnaires")
    score = IntegerField()
    max_score = IntegerField()
    pass_score = IntegerField()
    is_passed = BooleanField()
    requires_review = BooleanField()
    summary = CharField(1000)
    answers = TextField()
    submitted_at = UtcDateTimeField()
    expires_at = UtcDateTimeField(null=True, index=True)

    class Meta:
        table_name = "regsvc_questionnaire_result"


class OutboxEntry(BaseModel):
    """A side effect that was promised in the transaction of its cause, and is done after it."""

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

    class Meta:
        table_name = "regsvc_outbox"
        indexes = (
            (("next_attempt_at",), False),
            (("recipient_key",), False),
            (("outcome", "id"), False),
            (("user_id", "id"), False),
        )


class RateLimitWindow(BaseModel):
    """How often something that is limited happened in the window under way."""

    id = BigAutoField()
    scope = CharField(40)
    subject = CharField(320)
    period_seconds = IntegerField()
    started_at = UtcDateTimeField()
    ends_at = UtcDateTimeField(index=True)
    hits = IntegerField()

    class Meta:
        table_name = "regsvc_rate_limit"
        indexes = ((("scope", "subject", "period_seconds"), True),)


class AuditEntry(BaseModel):
    """Who did what to whom. Append-only; only `occurrences` of a tallied entry may grow."""

    id = BigAutoField()
    action = CharField(40)
    operator = CharField(255)
    target = CharField(255, null=True)
    detail = TextField(null=True)
    ip = CharField(45, null=True)
    tally = CharField(64, null=True, unique=True)
    occurrences = IntegerField(default=1)
    created_at = UtcDateTimeField(index=True)

    class Meta:
        table_name = "regsvc_audit"
        indexes = ((("target", "id"), False), (("action", "id"), False), (("operator", "id"), False))


MODELS: Final[tuple[type[BaseModel], ...]] = (
    Installation,
    Migration,
    Lease,
    User,
    Review,
    Player,
    DigestBucket,
    SyncState,
    Session,
    KnownClient,
    Verification,
    Link,
    ChatRequest,
    ChatLink,
    StoredQuestionnaire,
    OutboxEntry,
    RateLimitWindow,
    AuditEntry,
)


def bind_models(database: Database) -> None:
    """Let the models speak to this database. One process has one of ours."""
    database.bind(MODELS)
