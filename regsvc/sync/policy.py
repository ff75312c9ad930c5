"""The sync policy of the current config."""

from datetime import datetime

from regsvc.config.live import AuthMeRules
from regsvc.config.sections import Config
from regsvc.sync.records import Policy


def make_policy(config: Config, rules: AuthMeRules, first_started_at: datetime, *, is_bridge_on: bool) -> Policy:
    """Return the policy; `new_players = "auto"` follows `registration.approval`."""
    sync, new_players = config.sync, config.sync.new_players
    if new_players == "auto":
        new_players = "pending" if config.registration.approval else "approved"
    return Policy(
        existing_players=sync.existing_players,
        new_players=new_players,
        on_player_removed=sync.on_player_removed,
        unapproved_players=sync.unapproved_players,
        conflict=sync.conflict,
        first_started_at=first_started_at,
        algorithms=rules.algorithms,
        is_bridge_on=is_bridge_on,
        may_provision=rules.may_provision,
    )
