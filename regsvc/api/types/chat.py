"""Types of the chat routes."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.messages import Output, Password, Reply, Request, Username
from regsvc.api.types.registration import CodeProof

LinkToken = Annotated[
    str,
    Meta(
        description="Claims the chat link that was started with it.",
        examples=["0pJ7Vd0cVbq8yR3v0cY2mB5kT1nX4wZ6aE9sG7hL2uQ"],
    ),
]
IsLinked = Annotated[bool, Meta(description="Whether a chat account is linked.", examples=[True])]


class BeginChatLinkQuery(Request, frozen=True, kw_only=True):
    """The user to link; it only matters together with that user's own access token."""

    username: Username | None = None


class BeginChatLinkReply(Reply, frozen=True, kw_only=True):
    """The page to send the player to, and the token that claims the link. The token is also set as a cookie."""

    auth_url: Annotated[
        str, Meta(description="A page of the chat platform.", examples=["https://discord.com/oauth2/authorize?…"])
    ]
    link_token: LinkToken


class ChatCallbackQuery(Request, frozen=True, kw_only=True):
    """The parameters with which the chat platform redirects the player back (RFC 6749)."""

    state: Annotated[str, Meta(description="The `state` of the `authUrl`.")] | None = None
    code: Annotated[str, Meta(description="The authorization code.")] | None = None
    error: Annotated[str, Meta(description="Why there is no code.", examples=["access_denied"])] | None = None


class ChatAccountFields(Output, frozen=True, kw_only=True):
    """An account on the chat platform, as of the time when it was linked."""

    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])]
    discriminator: Annotated[str, Meta(description="`0` if the platform has none.", examples=["0"])]
    avatar: Annotated[str, Meta(description="The platform's value; a hash on Discord.")] | None
    global_name: Annotated[str, Meta(examples=["Alice"])] | None


class ChatCallbackReply(Reply, frozen=True, kw_only=True):
    """The proven account. If `claimed` is false, it waits for a registration or a login with the link token."""

    linked: IsLinked = True
    claimed: Annotated[bool, Meta(examples=[False])]
    user: ChatAccountFields


class ChatStatusQuery(Request, frozen=True, kw_only=True):
    """The user whose chat account is looked up."""

    username: Username


class ChatStatusReply(Reply, frozen=True, kw_only=True):
    """The status of a link. Only the owner, admins and clients with the link token see `user`."""

    linked: IsLinked
    user: ChatAccountFields | UnsetType = UNSET


class UnlinkChatRequest(Request, frozen=True, kw_only=True):
    """The name, and one of the proofs unless the access token is the user's or an admin's."""

    username: Username
    password: Password | None = None
    totp: Annotated[str, Meta(description="Needed with the password if the player has a second factor.")] | None = None
    code: Annotated[str, Meta(description="Mailed with the purpose `unlink`.", examples=["123456"])] | None = None
    proof: CodeProof | None = None
    link_token: LinkToken | None = None


class ChatClaimFields(Output, frozen=True, kw_only=True):
    """The result of claiming a link at a login; `code` and `message` say why it could not be claimed."""

    linked: IsLinked
    user: ChatAccountFields | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["invalid_link_token"])] | UnsetType = UNSET
    message: Annotated[str, Meta(examples=["This chat link was already used or is too old."])] | UnsetType = UNSET
