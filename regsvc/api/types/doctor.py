"""What the route of the doctor carries."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from regsvc.api.types.messages import EpochMilliseconds, Output, Reply, Request

Severity = Literal["broken", "risky"]
Verdict = Literal["fine", "risky", "broken"]
Words = Annotated[str, Meta(description="A sentence or two, in English.")]


class DoctorQuery(Request, frozen=True, kw_only=True):
    """How fresh it has to be."""

    fresh: Annotated[bool, Meta(description="Look again, though the last look was less than a minute ago.")] = False


class FindingFields(Output, frozen=True, kw_only=True):
    """One thing that is `broken`, or `risky`: it works, but not as safely or reliably as it could."""

    id: Annotated[str, Meta(description="Of this kind of finding, for ever.", examples=["authme.caching"])]
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
    """Findings, what is broken first; and what could not be looked at, with the reason."""

    verdict: Annotated[Verdict, Meta(description="The worst there is.")]
    findings: list[FindingFields]
    not_examined: Annotated[list[str], Meta(examples=[[]])]
    checked_at: EpochMilliseconds
