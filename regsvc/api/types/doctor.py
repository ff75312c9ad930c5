"""Types of the doctor's route."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from regsvc.api.types.messages import EpochMilliseconds, Output, Reply, Request

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
