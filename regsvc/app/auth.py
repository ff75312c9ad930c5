"""Wiring of sessions, limits and the audit log."""

from dataclasses import dataclass

from regsvc.app.context import AppContext
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.second_factor import SecondFactors
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.database.audit import Audit
from regsvc.users.retention import Retention


@dataclass(frozen=True)
class AuthParts:
    """Sessions, second factors, durable limits, the audit log and its retention."""

    audit: Audit
    sessions: Sessions
    known_clients: KnownClients
    second_factors: SecondFactors
    limits: DurableLimits
    retention: Retention


def wire_auth(context: AppContext) -> AuthParts:
    config, auth, now = context.config, context.config.auth, context.now
    audit = Audit(now)
    sessions = Sessions(
        signing=context.keys.signing,
        now=now,
        user_lifetime=auth.user_token,
        admin_lifetime=auth.admin_token,
        user_idle=auth.user_idle,
        admin_idle=auth.admin_idle,
        is_operator=context.is_operator,
        audit=audit,
    )
    second_factors = SecondFactors(DerivedSecrets(context.keys.installation_key), now)
    retention = Retention(context.location.database, config.retention, audit, now)
    return AuthParts(audit, sessions, KnownClients(now), second_factors, DurableLimits(now), retention)
