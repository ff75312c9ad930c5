"""Routes for monitoring: health probes and metrics, outside the API, and the doctor's findings for admins."""

from __future__ import annotations

from hmac import compare_digest
from typing import Annotated, Any, Final, Literal, cast

from msgspec import Meta

from regsvc.api.base import Access, ApiHandler, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.types.messages import EpochMilliseconds, Output, Reply, Request, milliseconds_of
from regsvc.core.addresses import is_loopback
from regsvc.core.errors import Refusal, UnknownPath
from regsvc.doctor.report import in_language
from regsvc.runtime.metrics import CONTENT_TYPE


class AliveReply(Reply, frozen=True, kw_only=True):
    """`installation` tells installations apart and reveals nothing; null before the first start."""

    status: str = "alive"
    installation: str | None


class ReadyReply(Reply, frozen=True, kw_only=True):
    """`bridge` is the state of AuthMe's table, `restart_needed` the keys that take effect at the next start.

    `sync_seconds`: since the sync last ran, or since the start.
    """

    status: str = "ready"
    bridge: str
    braked: bool
    oldest_mail_seconds: int | None
    restart_needed: tuple[str, ...]
    sync_seconds: int


class ProbeHandler(ApiHandler):
    """Base of handlers for monitoring: access tokens are ignored."""

    async def _authorize(self) -> None:
        """Skip authentication, so that even an invalid token is no obstacle."""


class AliveHandler(ProbeHandler):
    """Liveness probe: an answer means that the process and its event loop run."""

    async def get(self) -> None:
        self.send(AliveReply(installation=self.services.health.installation))


class ReadyHandler(ProbeHandler):
    """Readiness probe: the database is reachable and has our tables.

    AuthMe's table, the mass-change guard and waiting mails are reported but do not make the process unready: no other
    process could answer better.
    """

    def refusal_body(self, refusal: Refusal) -> dict[str, object]:
        """Include the waiting keys, since a restart may help, and whether our files were removed, since none would."""
        health = self.services.health
        return super().refusal_body(refusal) | {
            "restartNeeded": health.restart_needed,
            "stateLost": health.is_state_lost,
        }

    async def get(self) -> None:
        status = await self.services.health.status()
        if status.refusal is not None:
            self.write_refusal(status.refusal)
            self.finish()
            return
        age = status.oldest_mail_age
        self.send(
            ReadyReply(
                bridge=status.bridge,
                braked=status.has_held_back_changes,
                oldest_mail_seconds=None if age is None else round(age.total_seconds()),
                restart_needed=status.restart_needed,
                sync_seconds=round(status.seconds_since_sync),
            )
        )


HEALTH: Final[list[tuple[Any, ...]]] = [
    ("/health/alive", AliveHandler, {"access": {"GET": Access.PUBLIC}}),
    ("/health/ready", ReadyHandler, {"access": {"GET": Access.PUBLIC}}),
]
"""Tornado's rules for the probes."""


Severity = Literal["broken", "risky"]
Verdict = Literal["fine", "risky", "broken"]
Words = Annotated[str, Meta(description="A sentence or two, in the language of the reply.")]


class DoctorQuery(Request, frozen=True, kw_only=True):
    """Query of the doctor's route: whether a recent result is good enough."""

    fresh: Annotated[bool, Meta(description="Check again, even if the last check was less than a minute ago.")] = False


class FindingFields(Output, frozen=True, kw_only=True):
    """A problem: `broken`, or `risky` if it works, but not as safely or reliably as it could."""

    id: Annotated[str, Meta(description="A stable id of the kind of finding.", examples=["authme.caching"])]
    severity: Severity
    title: Annotated[Words, Meta(examples=["DataSource.caching is true."])]
    why: Annotated[Words, Meta(examples=["An old password works for minutes after it was changed on the web."])]
    do: Annotated[Words, Meta(examples=["Switch the cache off and restart the game server."])]
    where: Annotated[
        str,
        Meta(
            description="A file and a key with the value it should have, a command, or a statement.",
            examples=["plugins/AuthMe/config.yml: DataSource.caching: false"],
        ),
    ]


class CheckupReply(Reply, frozen=True, kw_only=True):
    """The findings, broken ones first, and the checks that could not run, with the reason."""

    language: Annotated[str, Meta(description="The language of the sentences.", examples=["en"])]
    verdict: Annotated[Verdict, Meta(description="The worst severity of all findings.")]
    findings: list[FindingFields]
    not_examined: Annotated[list[str], Meta(examples=[[]])]
    checked_at: EpochMilliseconds


class DoctorHandler(ApiHandler):
    @endpoint()
    async def get(self, query: DoctorQuery) -> CheckupReply:
        """List what is broken or risky about this installation and what to change, like `companion doctor`.

        The config is checked as it is in effect, even if the file was changed since. The sentences are in the
        caller's language if the doctor speaks it (`language` of the reply), else in English.
        """
        checkup, made_at = await self.services.doctor.get(force=query.fresh)
        checkup = await self.run(in_language, checkup, self.language)
        return CheckupReply(
            language=checkup.language,
            verdict=cast(Verdict, checkup.verdict),
            findings=[to_reply(FindingFields, finding) for finding in checkup.findings],
            not_examined=list(checkup.not_examined),
            checked_at=milliseconds_of(made_at),
        )


_FORWARDED: Final = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
_FORWARDED_PREFIX: Final = "x-forwarded"


class MetricsHandler(ProbeHandler):
    """Handler of `/metrics`, for scrapers on this machine and those with the scrape token."""

    async def get(self) -> None:
        status = await self.services.health.status()
        waiting = await self.services.health.waiting_work() if status.is_ready else None
        text = self.services.metrics.text(status, waiting)
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(text)

    def _check_request(self) -> None:
        is_allowed = self._is_from_this_machine or self._has_scrape_token
        if not self.services.config.metrics.enabled or not is_allowed:
            raise UnknownPath
        super()._check_request()

    @property
    def _is_from_this_machine(self) -> bool:
        """Whether the connection is local and not that of a proxy on behalf of another client."""
        names = {name.lower() for name in self.request.headers}
        is_forwarded = bool(names & _FORWARDED) or any(name.startswith(_FORWARDED_PREFIX) for name in names)
        context = getattr(self.request.connection, "context", None)  # `request.remote_ip` is the client's address
        return not is_forwarded and is_loopback(getattr(context, "remote_ip", ""))

    @property
    def _has_scrape_token(self) -> bool:
        token = self.services.config.metrics.token
        scheme, _space, given = self.request.headers.get("Authorization", "").partition(" ")
        is_same = compare_digest(given.strip().encode("latin-1", "replace"), token.encode())
        return bool(token) and scheme.lower() == "bearer" and is_same


METRICS: Final[list[tuple[Any, ...]]] = [("/metrics", MetricsHandler, {"access": {"GET": Access.PUBLIC}})]
"""Tornado's rule for the metrics."""
