"""The operations of users on their own account, apart from the password."""

from dataclasses import dataclass

from regsvc.accounts.email_changes import EmailChanges
from regsvc.accounts.second_factor_setup import SecondFactorSetup, SecondFactorStore
from regsvc.accounts.self_deletion import SelfDeletion, SessionEnding
from regsvc.users.export import UserExport


@dataclass(frozen=True)
class SelfService:
    """Change of the e-mail address, export, deletion, sessions and second factor."""

    email_changes: EmailChanges
    export: UserExport
    deletion: SelfDeletion
    sessions: SessionEnding
    second_factor: SecondFactorSetup
    second_factor_store: SecondFactorStore
