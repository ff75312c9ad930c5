"""Handler methods with a contract: a typed request in, a typed reply out, and the refusals the method may answer with.

    class SendCodeHandler(ApiHandler):
        @endpoint(InvalidEmail, RateLimited)
        async def post(self, request: SendCodeRequest) -> SendCodeReply:
            \"\"\"Mail a verification code.\"\"\"
            sent = await self.services.verification.send_code(request.email, self.caller)
            return SendCodeReply(message=self.message("code_sent"), remaining_seconds=sent.remaining_seconds)

The annotations are the contract: the request is read from the query of a GET and from the body of a POST, the reply is
sent as it is typed, and the docstring becomes the operation's summary and description in the OpenAPI document.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from regsvc.api.types.messages import Reply, Request
from regsvc.core.errors import Refusal

if TYPE_CHECKING:
    from regsvc.api.base import ApiHandler

ACCESS_TOKEN: Final = "accessToken"  # noqa: S105 - a name
LINK_TOKEN: Final = "linkToken"  # noqa: S105 - a name
LINK_COOKIE: Final = "linkCookie"
ADDRESS_PROOF: Final = "addressProof"
APPLICATION_TOKEN: Final = "applicationToken"  # noqa: S105 - a name
"""Credentials, by the names of their security schemes in the OpenAPI document."""

_CONTRACT: Final = "contract"

Method = Callable[..., Awaitable[Reply | None]]


@dataclass(frozen=True)
class Contract:
    """Request type, reply types and refusals of a handler method.

    `request_type` is None for a method that reads neither body nor query. `reply_types` is empty for a method that
    writes its response itself (as `media_type`). `refusals` are the method's own; those of every route come on top.
    `redirects` says when it answers with a redirect (303); empty: never. `credentials` are the optional ones a public
    route accepts, by the names of their security schemes.
    """

    request_type: type[Request] | None
    reply_types: tuple[type[Reply], ...]
    refusals: tuple[type[Refusal], ...]
    status: int
    media_type: str
    description: str
    redirects: str = ""
    credentials: tuple[str, ...] = ()


def endpoint(
    *refusals: type[Refusal],
    status: int = 200,
    media_type: str = "application/json",
    redirects: str = "",
    credentials: tuple[str, ...] = (),
) -> Callable[[Method], Callable[[ApiHandler], Awaitable[None]]]:
    """Turn a method that takes a request type (or nothing) and returns a reply type into a Tornado method.

    A method that returns None has written its response itself, for example a redirect or a stream of `media_type`.
    """

    def decorate(method: Method) -> Callable[[ApiHandler], Awaitable[None]]:
        @functools.cache  # annotations cannot be resolved before the module is fully imported
        def contract() -> Contract:
            return replace(
                _read_contract(method, refusals, status, media_type), redirects=redirects, credentials=credentials
            )

        @functools.wraps(method)
        async def answer(self: ApiHandler) -> None:
            request_type = contract().request_type
            if request_type is None:
                reply = await method(self)
            elif method.__name__ == "get":
                reply = await method(self, self.query(request_type))
            else:
                reply = await method(self, self.body(request_type))
            if reply is not None:
                self.send(reply, status)

        setattr(answer, _CONTRACT, contract)
        return answer

    return decorate


def find_contract(method: object) -> Contract | None:
    """Return the contract of a handler method, or None if it was not declared with `endpoint`."""
    contract = getattr(method, _CONTRACT, None)
    return contract() if contract is not None else None


def _read_contract(method: Method, refusals: tuple[type[Refusal], ...], status: int, media_type: str) -> Contract:
    """Read the contract from the annotations; raises TypeError if they do not name request and reply types."""
    hints: dict[str, Any] = get_type_hints(method)
    returned = hints.pop("return", None)
    request_type = next(iter(hints.values()), None)
    reply_types = tuple(kind for kind in _alternatives(returned) if kind is not types.NoneType and kind is not None)
    if len(hints) > 1 or not all(issubclass(kind, Reply) for kind in reply_types):
        raise TypeError(f"{method.__qualname__} has no request and reply types")
    if request_type is not None and not issubclass(request_type, Request):
        raise TypeError(f"{method.__qualname__} takes no request type")
    return Contract(request_type, reply_types, refusals, status, media_type, inspect.getdoc(method) or "")


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)
