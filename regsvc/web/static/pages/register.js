// Registering: one step after the other, each only if this host requires it.

import { againStep, fillInAgain } from "../register/again.js";
import { chatStep } from "../register/chat.js"; // if chat
import { codeStep } from "../register/code.js"; // if code
import { Draft } from "../register/draft.js";
import { emailStep } from "../register/email.js";
import { Flow } from "../register/flow.js";
import { takeInvitation } from "../register/invitation.js";
import { nameStep, takeNameFromAddress } from "../register/name.js";
import { questionnaireStep } from "../register/questionnaire.js"; // if questionnaire
import { Api } from "../shared/api.js";
import { config, linkContact } from "../shared/config.js";
import { icon, make } from "../shared/dom.js";
import { formatTime, t } from "../shared/i18n.js";
import { showSection, startPage } from "../shared/page.js";

const ALL_STEPS = [emailStep, codeStep, nameStep, questionnaireStep, chatStep];

async function render() {
  const api = new Api();
  if (!config.registration.open) {
    const { opensAt } = config.registration;
    const opens = opensAt === null ? "" : `\n${t("opens_at", { time: formatTime(opensAt) })}`;
    showSection(null, make("p", { class: "empty lines" }, icon("i-lock"), linkContact(t("closed") + opens)));
    return;
  }
  const draft = new Draft();
  await fillInAgain(draft, api);
  const invitation = await takeInvitation(draft, api);
  const excused = invitation?.grants.includes("no_questionnaire") ? [questionnaireStep] : [];
  const all = draft.get("reapplyToken") ? [againStep, chatStep] : ALL_STEPS;
  const steps = all.filter((step) => step?.isRequired(config) && !excused.includes(step)); // undefined: not used here
  takeNameFromAddress(draft, config);
  await new Flow({ api, config, draft, steps, invitation }).begin();
}

startPage(render);
