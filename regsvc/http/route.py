"""Routes: an async function with a typed request in and a typed reply out, its path, and the access that it requires.

    ROUTES = Routes()

    @ROUTES.add("POST", "/api/verify/send", PUBLIC, InvalidEmail, RateLimited)
    async def send_code(call: Call, verification: EmailVerification, request: SendCodeRequest) -> SendCodeReply:
        \"\"\"Mail a verification code.\"\"\"
        sent = await verification.send_code(request.email, call.caller)
        return SendCodeReply(message=call.message("code_sent"), remaining_seconds=sent.remaining_seconds)

The annotations are the contract: the request is read from the query of a GET and from the body of a POST, the reply is
sent as it is typed, and the docstring becomes the operation's summary and description in the OpenAPI document. The
other parameters are features, of which the application has each once, by its class (`Features`); one that it does not
have ends the start.
`Call` has refused malformed requests and those without the required access before the function is called.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regsvc.core.errors import Category, Refusal
from regsvc.core.rights import Permission
from regsvc.http.messages import Reply, Request

ACCESS_TOKEN: Final = "accessToken"  # noqa: S105 - a name
LINK_TOKEN: Final = "linkToken"  # noqa: S105 - a name
LINK_COOKIE: Final = "linkCookie"
ADDRESS_PROOF: Final = "addressProof"
APPLICATION_TOKEN: Final = "applicationToken"  # noqa: S105 - a name
"""Credentials, by the names of their security schemes in the OpenAPI document."""

APPLICATION_TOKEN_HEADER: Final = "X-Application-Token"  # noqa: S105 - a name
LINK_COOKIE_NAME: Final = "companion_link"
LINK_TOKEN_HEADER: Final = "X-Link-Token"  # noqa: S105 - a name
PROOF_HEADER: Final = "X-Address-Proof"

SMALL_BODY: Final = 8 * 1024
"""Largest body in bytes where a few short fields are sent; elsewhere `http.max_body` alone applies."""

Answer = Callable[..., Awaitable[Reply | None]]
AnyAnswer = TypeVar("AnyAnswer", bound=Answer)
T = TypeVar("T")


class MissingFeature(LookupError):
    """A feature that the application does not have; `str()` names it, and the path that needs it."""


class Features(dict[type, Any]):
    """The features of one process, each once, by its class."""

    @classmethod
    def of(cls, *features: object) -> Features:
        """Return these; raises ValueError for two of one class."""
        provided = cls((type(feature), feature) for feature in features)
        if len(provided) < len(features):
            raise ValueError("two features of one class")
        return provided

    def of_class(self, kind: type[T]) -> T:
        """Return the feature of this class; raises `MissingFeature`."""
        try:
            feature: T = self[kind]
        except KeyError:
            raise MissingFeature(f"the application has no {kind.__name__}") from None
        return feature


class Access(Enum):
    """The access a route requires."""

    PUBLIC = "public"
    PUBLIC_WITH_ANY_TOKEN = "public, and an invalid token counts as none"  # noqa: S105 - not a token
    PROBE = "public, and tokens are not looked at"
    USER = "user"
    ADMIN = "a member of the team"


PUBLIC, USER, ADMIN = Access.PUBLIC, Access.USER, Access.ADMIN


@dataclass(frozen=True)
class Route:
    """One method of one path, and the function that answers it; GET implies HEAD.

    `needs` are the features that the function takes, each after the name of its parameter. `request_type` is None, and
    its parameter's name empty, for a function that reads neither body nor query. `reply_types` is empty for one that
    writes its response itself (as `media_type`). `refusals` are the function's own; those of every route come on top.
    `redirects` says when it answers with a redirect (303); empty: never. `credentials` are the optional ones a public
    route accepts, by the names of their security schemes.
    """

    method: Literal["GET", "POST"]
    path: str
    access: Access
    answer: Answer
    needs: tuple[tuple[str, type], ...]
    request_name: str
    request_type: type[Request] | None
    reply_types: tuple[type[Reply], ...]
    refusals: tuple[type[Refusal], ...]
    status: int = 200
    media_type: str = "application/json"
    redirects: str = ""
    credentials: tuple[str, ...] = ()
    has_large_body: bool = False
    permission: Permission | None = None
    """What the caller must be permitted, where the access is ADMIN; None: anything at all."""
    is_activity: bool = True
    """Whether a request keeps an admin's session from becoming idle."""
    keeps_429: bool = False
    """Whether game proxies ask it, which take any 200 for an answer: its limits have their true status under
    `http.legacy_status`, too, and a second slash before the path is accepted there."""
    is_deprecated: bool = False
    made_of: Callable[..., tuple[object, ...]] | None = None
    """Returns all that the reply is made of, given the features: while that is equal, the last reply is sent again."""
    write_refusal: Callable[[Any, Refusal], bool] | None = None
    """Writes refusals in the route's own way, and returns False for those to be written as JSON."""

    def with_features(self, features: Features) -> Route:
        """Return the route with the features that its functions take; raises `MissingFeature`."""
        try:
            taken: dict[str, object] = {name: features.of_class(kind) for name, kind in self.needs}
        except MissingFeature as missing:
            raise MissingFeature(f"{self.method} {self.path}: {missing}") from None
        made_of = None if self.made_of is None else partial(self.made_of, *taken.values())
        return replace(self, answer=partial(self.answer, **taken), needs=(), made_of=made_of)

    def sends_as_200(self, refusal: type[Refusal]) -> bool:
        """Return whether refusals of this kind have status 200 under `http.legacy_status`."""
        return refusal.is_business and not (self.keeps_429 and refusal.category is Category.LIMITED)


class Routes(list[Route]):
    """The routes of a module, in the order of its functions."""

    def add(
        self,
        method: Literal["GET", "POST"],
        path: str,
        access: Access | Permission,
        *refusals: type[Refusal],
        **details: Any,
    ) -> Callable[[AnyAnswer], AnyAnswer]:
        """Enter a function that takes the call, features, and a request type (or none), and returns a reply type.

        `access` may be a permission, which members of the team have or lack.

        A function that returns None has written its response itself, for example a redirect or a stream. `details` are
        further fields of its `Route`. Raises TypeError for a function without request and reply types.
        """

        def enter(answer: AnyAnswer) -> AnyAnswer:
            needs, request, reply_types = _read_types(answer)
            request_name, request_type = request or ("", None)
            if isinstance(access, Permission):
                required: dict[str, Any] = {"access": Access.ADMIN, "permission": access}
            else:
                required = {"access": access}
            self.append(
                Route(
                    method,
                    path,
                    answer=answer,
                    needs=needs,
                    request_name=request_name,
                    request_type=request_type,
                    reply_types=reply_types,
                    refusals=refusals,
                    **required,
                    **details,
                )
            )
            return answer

        return enter


def _read_types(
    answer: Answer,
) -> tuple[tuple[tuple[str, type], ...], tuple[str, type[Request]] | None, tuple[type[Reply], ...]]:
    """Return the features, the request and the reply types in the annotations of a function."""
    # the call itself is not imported where routes are: commands, which have none, would load the web framework
    hints: dict[str, Any] = get_type_hints(answer, localns={"Call": object})
    returned = hints.pop("return", inspect.Signature.empty)
    _call, *taken = hints.items()
    requests = [(name, kind) for name, kind in taken if isinstance(kind, type) and issubclass(kind, Request)]
    needs = tuple(each for each in taken if each not in requests)
    reply_types = tuple(kind for kind in _alternatives(returned) if kind is not types.NoneType)
    if len(requests) > 1 or not all(issubclass(kind, Reply) for kind in reply_types):
        raise TypeError(f"{answer.__qualname__} has no request and reply types")
    if not all(isinstance(kind, type) for _name, kind in needs):
        raise TypeError(f"{answer.__qualname__} takes what is no class")
    return needs, next(iter(requests), None), reply_types


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)
