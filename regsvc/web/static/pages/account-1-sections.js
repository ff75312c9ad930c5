// The contents of the sections of an account, which are loaded when one is first opened.

import { renderChat } from "../account/chat.js"; // if chat
import { renderDelete } from "../account/delete.js";
import { renderEmail } from "../account/email.js";
import { renderExport } from "../account/export.js";
import { renderMade, renderPassword } from "../account/password.js";
import { renderSessions } from "../account/sessions.js";
import { renderTotp } from "../account/totp.js";

/** @type {Record<string, AccountSection>} by their titles */
export const sections = {
  password_title: renderPassword,
  made_title: renderMade,
  totp_title: renderTotp,
  sessions_title: renderSessions,
  email_title: renderEmail,
  chat_title: renderChat,
  export_title: renderExport,
  delete_title: renderDelete,
};
