"""The page that players see after the chat platform redirects them back: the outcome, and what to do next."""

from __future__ import annotations

import re
from typing import Any, Final

from regsvc.api.handlers.chat import LINKED, PATH, WAITING
from regsvc.web.assets import asset_rules, load_style, load_template
from regsvc.web.pages import LayoutHandler, WebPage

_REASONS: Final = {
    "invalid_state": "refusal.invalid_state",
    "chat_denied": "refusal.chat_denied",
    "not_in_guild": "fault.chat_not_member.not_in_guild",
    "lacks_role": "fault.chat_not_member.lacks_role",
    "chat_account_taken": "refusal.chat_account_taken",
    "provider_away": "refusal.provider_away",
    "not_enabled": "refusal.not_enabled",
    "overloaded": "refusal.overloaded",
    "busy": "refusal.busy",
    "database_away": "refusal.database_away",
}
"""Translation keys of the reasons why linking failed, by outcome. Other outcomes get no reason."""

_ADVICE: Final = {LINKED: "advice_linked", WAITING: "advice_waiting", "chat_account_taken": "advice_taken"}


class ChatLinkedHandler(LayoutHandler):
    """Handler that shows only our own texts, chosen by the query's `outcome`. It needs no script."""

    def get(self) -> None:
        outcome = self.get_query_argument("outcome", "")
        has_reason = outcome in _REASONS
        self.render_page(
            _TEMPLATE,
            _PAGE,
            _STYLE,
            title=self._word(outcome if outcome in (LINKED, WAITING) else "failed"),
            reason=self._text(_REASONS[outcome]) if has_reason else "",
            advice=self._word(_ADVICE.get(outcome, "advice_failed")),
            go_on=self._word("go_on"),
            has_front_end=self.services.config.http.web_root is not None,
        )

    def _word(self, key: str) -> str:
        return self._text(f"{_PAGE.section}.{key}")


_PAGE: Final = WebPage(PATH, "chat-linked", is_for_players=False)
_TEMPLATE: Final = load_template("chat-linked.html")
_STYLE: Final = load_style(_PAGE.name)

CHAT_PAGE: Final[list[tuple[Any, ...]]] = [(re.escape(PATH), ChatLinkedHandler), *asset_rules(_STYLE)]
"""Tornado's rules for the page and its style sheet."""
