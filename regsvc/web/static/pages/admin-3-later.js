// What the admin page loads later: all views but the first, and the dialogs.

import { askApplicant } from "../admin/decisions/ask-dialog.js";
import { askDecision } from "../admin/decisions/decision-dialog.js";
import { auditsView } from "../admin/views/audits.js";
import { bansView } from "../admin/views/bans.js";
import { doctorView } from "../admin/views/doctor.js";
import { invitationsView } from "../admin/views/invitations.js";
import { mailsView } from "../admin/views/mails.js";
import { serverView } from "../admin/views/server.js";
import { syncView } from "../admin/views/sync.js";
import { teamView } from "../admin/views/team.js";
import { userView } from "../admin/views/user.js";
import { usersView } from "../admin/views/users.js";

/** @type {Record<string, LaterView>} by their ids */
export const views = {
  audits: auditsView,
  bans: bansView,
  doctor: doctorView,
  invitations: invitationsView,
  mails: mailsView,
  server: serverView,
  sync: syncView,
  team: teamView,
  user: userView,
  users: usersView,
};

export { askApplicant, askDecision };
