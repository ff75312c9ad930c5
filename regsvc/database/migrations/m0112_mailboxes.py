"""Columns for the mailbox that an address leads to, by which bans, rejections and signals are found.

The expression is `regsvc.core.email_address.mailbox_of`, in words that SQLite and MySQL share: `<` and `>` stand for the
two parts, which are joined without an operator; unquoted addresses have neither.
"""

from typing import Final

_LOCAL_PART: Final = "SUBSTR(email_key, 1, INSTR(email_key, '@') - 1)"
_UNTAGGED: Final = "SUBSTR(email_key, 1, INSTR(REPLACE(email_key, '@', '+'), '+') - 1)"
_NAME: Final = f"COALESCE(NULLIF(REPLACE({_UNTAGGED}, '.', ''), ''), {_LOCAL_PART})"
_JOINED: Final = f"REPLACE(REPLACE('<>', '>', SUBSTR(email_key, INSTR(email_key, '@'))), '<', {_NAME})"
_MAILBOX: Final = f"CASE WHEN INSTR(email_key, '\"') > 0 THEN email_key ELSE {_JOINED} END"

TABLES: Final = f"""
ALTER TABLE regsvc_user ADD COLUMN
  mailbox {{text:320}} GENERATED ALWAYS AS ({_MAILBOX}) {{generated}} -- the address without a tag and dots, as many services deliver it;

CREATE INDEX regsvc_user_mailbox ON regsvc_user (mailbox);

ALTER TABLE regsvc_review ADD COLUMN
  mailbox {{text:320}} GENERATED ALWAYS AS ({_MAILBOX}) {{generated}} -- the address without a tag and dots, as many services deliver it;

CREATE INDEX regsvc_review_mailbox ON regsvc_review (mailbox);
"""
