"""The peer: status look-up and registration as a Python developer would write them with today's usual parts.

FastAPI, uvicorn (uvloop, httptools), SQLAlchemy 2 async, asyncmy and aiosmtplib, on the companion's own tables and with
the same effects there; the audit entry, the outbox and the limits are the companion's. No validation beyond the types.
`.venv-bench/bin/python tests/bench/peer/app.py PORT DATABASE_URL SMTP_PORT` serves it on loopback.
"""

import asyncio
import hashlib
import hmac
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Annotated

import aiosmtplib
import uvicorn
from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import select, text, update
from sqlalchemy.dialects.mysql import insert as mysql_insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from tables import Audit, Outbox, Player, RateLimit, User, Verification  # beside this file

CODE_KEY = secrets.token_bytes(32)
CODE_VALID = timedelta(minutes=5)
MAX_TRIES = 5
MAX_HITS = 100_000
PERIODS = (60, 86_400)  # seconds, as many as the companion's limits have by default
MAIL_TEXT = """Hello,

your verification code for Game server is:

    {code}

Type it into the registration form within {minutes} minutes. If you did not request it, ignore this mail.
"""
MAIL_HTML = """<!doctype html><html lang="en"><body><p>Hello,</p><p>your verification code for Game server is:</p>
<p style="font-size:2em">{code}</p><p>Type it into the registration form within {minutes} minutes.
If you did not request it, ignore this mail.</p></body></html>"""

RECEIPT_TEXT = """Hello {username},

we have received your application to Game server. We will write again once it is decided. Its status:

    {link}
"""
RECEIPT_HTML = """<!doctype html><html lang="en"><body><p>Hello {username},</p><p>we have received your application to
Game server. We will write again once it is decided.</p><p><a href="{link}">Its status</a></p></body></html>"""

# With the rows as parameters, so that SQLAlchemy compiles it once and asyncmy sends it as one statement.
COUNT_HITS = mysql_insert(RateLimit.__table__).on_duplicate_key_update(hits=text("hits + 1"))


class NameStatus(BaseModel):
    registered: bool
    username: str | None = None
    status: str | None = None


class StatusReply(BaseModel):
    success: bool = True
    data: NameStatus


class SendRequest(BaseModel):
    email: str


class SendReply(BaseModel):
    success: bool = True
    message: str
    remainingSeconds: int  # noqa: N815 - the companion's JSON
    expiresInSeconds: int  # noqa: N815


class RegisterRequest(BaseModel):
    username: str
    email: str
    password: str
    code: str


class RegisterReply(BaseModel):
    success: bool = True
    message: str
    username: str
    email: str
    status: str


port, database_url, smtp_port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
engine = create_async_engine(database_url, pool_size=16, isolation_level="READ COMMITTED")
new_session = async_sessionmaker(engine, expire_on_commit=False)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


async def open_session() -> AsyncIterator[AsyncSession]:
    async with new_session() as session:
        yield session


Session = Annotated[AsyncSession, Depends(open_session)]


@app.get("/api/user/status", response_model_exclude_none=True)
async def user_status(username: str) -> StatusReply:
    query = select(User.username, User.status).where(User.username_key == username.lower())
    async with engine.connect() as connection:  # a third cheaper than a session
        row = (await connection.execute(query)).first()
    if row is None:
        return StatusReply(data=NameStatus(registered=False))
    return StatusReply(data=NameStatus(registered=True, username=row.username, status=row.status))


@app.post("/api/verify/send")
async def send_code(sent: SendRequest, request: Request, later: BackgroundTasks, session: Session) -> SendReply:
    address, client = sent.email.lower(), request.client.host if request.client else ""
    moment = now()
    async with session.begin():
        await count_hits(session, [("mail.address", address), ("mail.client", client), ("mail.total", "")], moment)
        owner = await session.scalar(select(User.id).where(User.email_key == address))
        code_row = Verification(email_key=address, purpose="register", nonce=secrets.token_hex(16), created_at=moment)
        session.add(code_row)
        await session.flush()
        mail = Outbox(
            template="already_registered" if owner else "verification_code",
            recipient=sent.email,
            recipient_key=address,
            language="en",
            user_id=owner,
            row_id=None if owner else code_row.id,
            created_at=moment,
            next_attempt_at=moment + CODE_VALID,  # else the companion's delivery might send it as well
        )
        session.add(mail)
    code = "" if owner else code_of(code_row)
    texts = MAIL_TEXT.format(code=code, minutes=5), MAIL_HTML.format(code=code, minutes=5)
    later.add_task(deliver, mail, f"{code} is your verification code", *texts, None if owner else code_row)
    return SendReply(
        message="If the address can be used, a code is on its way.",
        remainingSeconds=0,
        expiresInSeconds=int(CODE_VALID.total_seconds()),
    )


@app.post("/api/register", status_code=201)
async def register(asked: RegisterRequest, request: Request, later: BackgroundTasks, session: Session) -> RegisterReply:
    address, client = asked.email.lower(), request.client.host if request.client else None
    async with session.begin():
        code_row = await find_code(session, address)
        if code_row is None or code_row.tries >= MAX_TRIES:
            raise HTTPException(400, "invalid code")
        if not hmac.compare_digest(asked.code, code_of(code_row)):
            code_row.tries += 1
            await session.commit()
            raise HTTPException(400, "invalid code")
    hashed = await asyncio.to_thread(hash_password, asked.password)
    moment = now()
    try:
        async with session.begin():
            redeemed = (
                update(Verification)
                .where(Verification.id == code_row.id, Verification.redeemed_at.is_(None))
                .values(redeemed_at=moment)
            )
            if (await session.execute(redeemed)).rowcount == 0:
                raise HTTPException(400, "invalid code")
            taken = text("SELECT 1 FROM authme WHERE username = :key")
            if (await session.execute(taken, {"key": asked.username.lower()})).first() is not None:
                raise HTTPException(409, "taken")
            user = new_user(asked, address, client, hashed, moment)
            session.add(user)
            await session.flush()
            session.add(Player(username_key=user.username_key, user_id=user.id, plugin_since=moment))
            session.add(
                Audit(
                    action="user.registered",
                    operator=user.username,
                    target=user.username,
                    ip=client,
                    created_at=moment,
                )
            )
            receipt = Outbox(
                template="received",
                recipient=asked.email,
                recipient_key=address,
                language="en",
                user_id=user.id,
                created_at=moment,
                next_attempt_at=moment + CODE_VALID,
            )
            session.add(receipt)
    except IntegrityError:
        raise HTTPException(409, "taken") from None
    token = hmac.new(CODE_KEY, f"{user.id}/{address}".encode(), "sha256").hexdigest()
    values = {"username": user.username, "link": f"https://play.example.org/application#token={user.id}.{token}"}
    texts = RECEIPT_TEXT.format(**values), RECEIPT_HTML.format(**values)
    later.add_task(deliver, receipt, "We have received your application", *texts)
    return RegisterReply(message="Registered.", username=user.username, email=asked.email, status=user.status)


def new_user(asked: RegisterRequest, address: str, client: str | None, hashed: str, moment: datetime) -> User:
    return User(
        username=asked.username,
        username_key=asked.username.lower(),
        email=asked.email,
        email_key=address,
        language="en",
        password_hash=hashed,
        password_set_at=moment,
        registration_ip=client,
        created_at=moment,
    )


async def count_hits(session: AsyncSession, subjects: list[tuple[str, str]], moment: datetime) -> None:
    """Count one hit in each window, and refuse if one is used up."""
    rows = [
        {
            "scope": scope,
            "subject": subject,
            "period_seconds": period,
            "started_at": moment,
            "ends_at": moment + timedelta(seconds=period),
            "hits": 1,
        }
        for scope, subject in subjects
        for period in PERIODS
    ]
    await session.execute(COUNT_HITS, rows)
    used = select(RateLimit.hits).where(
        RateLimit.scope.in_([scope for scope, _subject in subjects]),
        RateLimit.subject.in_([subject for _scope, subject in subjects]),
        RateLimit.ends_at > moment,
    )
    if any(count > MAX_HITS for count in (await session.scalars(used)).all()):
        raise HTTPException(429, "too many")


async def find_code(session: AsyncSession, address: str) -> Verification | None:
    """Return the newest code for this address if it can still be redeemed."""
    query = (
        select(Verification)
        .where(Verification.email_key == address, Verification.purpose == "register")
        .order_by(Verification.id.desc())
        .limit(1)
    )
    row = await session.scalar(query)
    if row is None or row.redeemed_at is not None or row.created_at + CODE_VALID < now():
        return None
    return row


async def deliver(mail: Outbox, subject: str, plain: str, html: str, code_row: Verification | None = None) -> None:
    """Send the mail, then record it."""
    message = EmailMessage()
    message["From"], message["To"] = "companion@example.org", mail.recipient
    message["Subject"] = subject
    message.set_content(plain)
    message.add_alternative(html, subtype="html")
    await aiosmtplib.send(message, hostname="127.0.0.1", port=smtp_port, start_tls=False)
    moment = now()
    async with new_session() as session, session.begin():
        done = {"done_at": moment, "outcome": "sent", "next_attempt_at": None, "attempts": 1}
        await session.execute(update(Outbox).where(Outbox.id == mail.id).values(done))
        if code_row is not None:
            handed = update(Verification).where(Verification.id == code_row.id).values(handed_over_at=moment)
            await session.execute(handed)


def code_of(row: Verification) -> str:
    digest = hmac.digest(CODE_KEY, f"{row.id}/{row.nonce}/{row.email_key}".encode(), "sha256")
    return f"{int.from_bytes(digest) % 10**6:06}"


def hash_password(password: str) -> str:
    """AuthMe's SHA256."""
    salt = secrets.token_hex(8)
    inner = hashlib.sha256(password.encode()).hexdigest()
    return f"$SHA${salt}${hashlib.sha256((inner + salt).encode()).hexdigest()}"


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", log_level="warning", access_log=False
    )
