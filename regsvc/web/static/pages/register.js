// Registering: one step after the other, each only if this host asks for it.

import { Api } from "../shared/api.js";
import { make } from "../shared/dom.js";
import { start, turnTo } from "../shared/page.js";
import { Draft } from "../register/draft.js";
import { emailStep } from "../register/email.js";
import { codeStep } from "../register/code.js";
import { nameStep } from "../register/name.js";
import { questionnaireStep } from "../register/questionnaire.js";
import { chatStep } from "../register/chat.js";
import { Flow } from "../register/flow.js";
import { notice } from "../shared/notice.js";
import { word } from "../shared/i18n.js";

const ALL_STEPS = [emailStep, codeStep, nameStep, questionnaireStep, chatStep];

async function draw() {
  const api = new Api();
  const { config } = await api.get("config");
  if (!config.registration.open) {
    turnTo(null, make("p", {}, word("closed")));
    return;
  }
  const steps = ALL_STEPS.filter((step) => step.isAsked(config));
  const draft = new Draft(config);
  await new Flow({ api, config, draft, steps }).begin();
  notice.clear();
}

start(draw);
