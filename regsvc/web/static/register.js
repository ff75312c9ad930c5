// Registering: one step after the other, each only if this host asks for it.

import { Api } from "./api.js";
import { make } from "./elements.js";
import { start, turnTo } from "./page.js";
import { Draft } from "./register/draft.js";
import { emailStep } from "./register/email.js";
import { codeStep } from "./register/code.js";
import { nameStep } from "./register/name.js";
import { questionnaireStep } from "./register/questionnaire.js";
import { chatStep } from "./register/chat.js";
import { Flow } from "./register/flow.js";
import { notice } from "./pieces.js";
import { word } from "./words.js";

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
