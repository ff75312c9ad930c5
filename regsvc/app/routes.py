"""The route table of the whole API, in the order of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import Any, Final

from regsvc.accounts import (
    captcha,
    decisions,
    email_addresses,
    invitations,
    login,
    membership,
    password_changes,
    second_factor,
    self_deletion,
    status_lookup,
    team,
    team_credentials,
    undo,
)
from regsvc.accounts.chat import guild_roles
from regsvc.accounts.chat import linking as chat_linking
from regsvc.core.addresses import is_loopback
from regsvc.core.errors import UnknownPath
from regsvc.doctor import last_checkup
from regsvc.http import openapi
from regsvc.http.call import Call
from regsvc.http.hops import is_direct, is_for_this_machine, is_relayed
from regsvc.http.route import Features, Route
from regsvc.legacy.routes import legacy_routes, with_aliases
from regsvc.notifications.mail import history as mail_history
from regsvc.registration import public_config, registration
from regsvc.registration.applications import changes as application_changes
from regsvc.registration.applications import status as application_status
from regsvc.registration.questionnaire import service as questionnaire
from regsvc.runtime import event_streams, game_status, join_facts, settings, updates
from regsvc.runtime.health import PROBES
from regsvc.runtime.metrics import show_metrics
from regsvc.sync import service as sync
from regsvc.team_chat import service as team_chat
from regsvc.users import export, notes, user_details, user_list

ROUTES = with_aliases(
    (
        *openapi.ROUTES,
        *public_config.ROUTES,
        *captcha.ROUTES,
        *email_addresses.ROUTES,
        *registration.ROUTES,
        *invitations.ROUTES,
        *status_lookup.ROUTES,
        *questionnaire.ROUTES,
        *application_status.ROUTES,
        *application_changes.ROUTES,
        *login.ROUTES,
        *password_changes.ROUTES,
        *second_factor.ROUTES,
        *self_deletion.ROUTES,
        *export.ROUTES,
        *join_facts.ROUTES,
        *team_credentials.ROUTES,
        *chat_linking.ROUTES,
        *updates.ROUTES,
        *game_status.ROUTES,
        *user_list.ROUTES,
        *user_details.ROUTES,
        *decisions.ROUTES,
        *membership.ROUTES,
        *guild_roles.ROUTES,
        *notes.ROUTES,
        *team.ROUTES,
        *team_chat.ROUTES,
        *settings.ROUTES,
        *mail_history.ROUTES,
        *sync.ROUTES,
        *undo.ROUTES,
        *last_checkup.ROUTES,
        *event_streams.ROUTES,
    )
)

TABLES: Final[Mapping[bool, tuple[Route, ...]]] = {False: ROUTES, True: legacy_routes(ROUTES)}
"""The tables without and with `http.legacy_status`."""


class MetricsHandler(Call):
    """Handler of `/metrics`, which does not exist for anybody else."""

    def check_request(self) -> None:
        is_allowed = self._is_from_this_machine or self._has_scrape_token
        if not self.config.metrics.enabled or not is_allowed:
            raise UnknownPath
        super().check_request()

    @property
    def _is_from_this_machine(self) -> bool:
        """Whether the client is on this machine, and not at the other end of a proxy or a tunnel."""
        connection, headers = self.request.connection, self.request.headers
        context = getattr(connection, "context", None)  # `request.remote_ip` is the client's address
        is_from_here = is_loopback(getattr(context, "remote_ip", "")) and not is_relayed(connection)
        is_for_here = is_direct(headers) and is_for_this_machine(headers.get("Host", ""), self.config)
        return is_from_here and is_for_here and not self.application.hops.has_tunnel()

    @property
    def _has_scrape_token(self) -> bool:
        token = self.config.metrics.token
        scheme, _space, given = self.request.headers.get("Authorization", "").partition(" ")
        is_same = compare_digest(given.strip().encode("latin-1", "replace"), token.encode())
        return bool(token) and scheme.lower() == "bearer" and is_same


def probe_rules(features: Features) -> list[tuple[Any, ...]]:
    """Return Tornado's rules for the probes and the metrics; raises `MissingFeature`."""
    return [
        (
            route.path,
            MetricsHandler if route.answer is show_metrics else Call,
            {"routes": {"GET": route.with_features(features)}},
        )
        for route in PROBES
    ]
