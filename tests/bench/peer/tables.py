"""The companion's tables as SQLAlchemy maps them, with the columns that the peer uses."""

from datetime import datetime

from sqlalchemy import BigInteger, String, Text
from sqlalchemy.dialects.mysql import DATETIME
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Moment = DATETIME(fsp=3)


class Base(DeclarativeBase):
    type_annotation_map = {datetime: Moment}  # noqa: RUF012


class User(Base):
    __tablename__ = "regsvc_user"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    username: Mapped[str] = mapped_column(String(255))
    username_key: Mapped[str] = mapped_column(String(255), unique=True)
    email: Mapped[str | None] = mapped_column(String(320))
    email_key: Mapped[str | None] = mapped_column(String(320), unique=True)
    is_email_verified: Mapped[bool] = mapped_column(default=True)
    status: Mapped[str] = mapped_column(String(16), default="pending")
    applied_status: Mapped[str] = mapped_column(String(16), default="pending")
    language: Mapped[str | None] = mapped_column(String(16))
    platform: Mapped[str] = mapped_column(String(16), default="java")
    password_hash: Mapped[str | None] = mapped_column(String(255))
    password_algorithm: Mapped[str | None] = mapped_column(String(32), default="SHA256")
    password_set_at: Mapped[datetime | None]
    token_generation: Mapped[int] = mapped_column(default=0)
    origin: Mapped[str] = mapped_column(String(16), default="registered")
    registration_ip: Mapped[str | None] = mapped_column(String(45))
    created_at: Mapped[datetime]


class Player(Base):
    __tablename__ = "regsvc_sync_record"

    username_key: Mapped[str] = mapped_column(String(255), primary_key=True)
    user_id: Mapped[int | None] = mapped_column(BigInteger)
    presence: Mapped[str] = mapped_column(String(8), default="absent")
    plugin_state: Mapped[str] = mapped_column(String(16), default="absent")
    plugin_since: Mapped[datetime]


class Verification(Base):
    __tablename__ = "regsvc_verification"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    email_key: Mapped[str] = mapped_column(String(320))
    purpose: Mapped[str] = mapped_column(String(16))
    nonce: Mapped[str] = mapped_column(String(32))
    tries: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    handed_over_at: Mapped[datetime | None]
    redeemed_at: Mapped[datetime | None]


class Outbox(Base):
    __tablename__ = "regsvc_outbox"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), default="mail")
    template: Mapped[str] = mapped_column(String(40))
    recipient: Mapped[str] = mapped_column(String(320))
    recipient_key: Mapped[str] = mapped_column(String(320))
    language: Mapped[str] = mapped_column(String(16))
    user_id: Mapped[int | None] = mapped_column(BigInteger)
    row_id: Mapped[int | None] = mapped_column(BigInteger)
    attempts: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    next_attempt_at: Mapped[datetime | None]
    done_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(String(16))


class RateLimit(Base):
    __tablename__ = "regsvc_rate_limit"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    scope: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(320))
    period_seconds: Mapped[int]
    started_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    hits: Mapped[int]


class Audit(Base):
    __tablename__ = "regsvc_audit"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    action: Mapped[str] = mapped_column(String(40))
    operator: Mapped[str] = mapped_column(String(255))
    target: Mapped[str | None] = mapped_column(String(255))
    detail: Mapped[str | None] = mapped_column(Text)
    ip: Mapped[str | None] = mapped_column(String(45))
    occurrences: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime]
