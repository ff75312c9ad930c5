"""A handler's method with its contract: a typed request in, a typed reply out, and the refusals it may answer with.

    class SendCodeHandler(ApiHandler):
        @endpoint(InvalidEmail, RateLimited)
        async def post(self, request: SendCodeRequest) -> CodeSent:
            \"\"\"Mail a verification code.\"\"\"
            sent = await self.services.registration.send_code(request.email, self.caller)
            return CodeSent(message=self.say("code_sent"), remaining_seconds=sent.remaining_seconds)

The annotations are the contract: the request is read from the query of a GET and from the body of a POST, the reply is
sent as it is typed, and the docstring says in the API's description what the method is for.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from regsvc.api.types.messages import Reply, Request
from regsvc.core.refusal import Refusal

if TYPE_CHECKING:
    from regsvc.api.base import ApiHandler

ACCESS_TOKEN: Final = "accessToken"  # noqa: S105 - a name
LINK_TOKEN: Final = "linkToken"  # noqa: S105 - a name
LINK_COOKIE: Final = "linkCookie"
"""What a caller may show, by the names that the API's description has for it."""

_CONTRACT: Final = "contract"

Method = Callable[..., Awaitable[Reply | None]]


@dataclass(frozen=True)
class Contract:
    """What a method takes, gives and refuses.

    `takes` None: neither body nor query. `gives`: the kinds of reply; empty for a method that writes its answer itself
    (`media_type` says as what). `refuses`: its own refusals; those of every route come on top. `redirects`: when it
    answers with a redirection (303); empty: never. `shows`: what may prove more of the caller where nothing has to, by
    the names of the API's security schemes.
    """

    takes: type[Request] | None
    gives: tuple[type[Reply], ...]
    refuses: tuple[type[Refusal], ...]
    status: int
    media_type: str
    description: str
    redirects: str = ""
    shows: tuple[str, ...] = ()


def endpoint(
    *refuses: type[Refusal],
    status: int = 200,
    media_type: str = "application/json",
    redirects: str = "",
    shows: tuple[str, ...] = (),
) -> Callable[[Method], Callable[[ApiHandler], Awaitable[None]]]:
    """Make a Tornado method of one that takes a request type (or nothing) and returns a reply type.

    One that returns None has answered itself, for example with a redirection or a stream of `media_type`.
    """

    def decorate(method: Method) -> Callable[[ApiHandler], Awaitable[None]]:
        @functools.cache  # annotations are names until the module is whole
        def contract() -> Contract:
            return replace(_read_contract(method, refuses, status, media_type), redirects=redirects, shows=shows)

        @functools.wraps(method)
        async def answer(self: ApiHandler) -> None:
            takes = contract().takes
            if takes is None:
                reply = await method(self)
            else:
                reply = await method(self, self.query(takes) if method.__name__ == "get" else self.body(takes))
            if reply is not None:
                self.send(reply, status)

        setattr(answer, _CONTRACT, contract)
        return answer

    return decorate


def find_contract(method: object) -> Contract | None:
    """The contract of a handler's method; None for one that has none."""
    contract = getattr(method, _CONTRACT, None)
    return contract() if contract is not None else None


def _read_contract(method: Method, refuses: tuple[type[Refusal], ...], status: int, media_type: str) -> Contract:
    """Raises TypeError for annotations that are no contract."""
    hints: dict[str, Any] = get_type_hints(method)
    returned = hints.pop("return", None)
    takes = next(iter(hints.values()), None)
    gives = tuple(kind for kind in _alternatives(returned) if kind is not types.NoneType and kind is not None)
    if len(hints) > 1 or not all(issubclass(kind, Reply) for kind in gives):
        raise TypeError(f"{method.__qualname__} has no request and reply types")
    if takes is not None and not issubclass(takes, Request):
        raise TypeError(f"{method.__qualname__} takes no request type")
    return Contract(takes, gives, refuses, status, media_type, inspect.getdoc(method) or "")


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)
