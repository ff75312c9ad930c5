// The username and a password, with the host's rules in words; and an e-mail address where no step before asks for it.
// One step for both: password managers keep both from one form.

import { asRefusal } from "../shared/api.js";
import { button } from "../shared/dom.js";
import { Choice, Field } from "../shared/form.js";
import { formatTime, t } from "../shared/i18n.js";
import { asksPassword, matches, passwordField } from "../shared/password-fields.js";
import { emailField } from "./email.js";

const USUAL_LENGTH = /\{(\d+),(\d+)\}/;
/** With the dot that AuthMe is to allow for players of the Bedrock edition; others have none in their names. */
const USUAL_CHARACTERS = /\[a-zA-Z0-9_\.?\]/;
const LONGEST_GAMERTAG = 16;

/** @typedef {import("./draft.js").Draft} Draft */

/** @type {Step} */
export const nameStep = {
  id: "name",
  owns: ["username", "password", "platform", "email"],
  isRequired: () => true,
  given({ config: { bedrock, registration }, draft }) {
    const { username, platform, email } = draft.values;
    const given = [[t("name"), username]];
    if (bedrock.enabled) {
      given.push([t("platform"), t(`platform_${[platform].flat()[0]}`)]);
    }
    if (registration.email === "optional") {
      given.push([t("email"), email || t("not_given")]);
    }
    return given;
  },
  titleKey: (config) => (asksPassword(config) ? "step_name" : "name"),

  async render(flow) {
    const onRefusal = (/** @type {import("../shared/api.js").Refusal} */ refusal) =>
      flow.leadsToProof(refusal, { isAtEnd: flow.isLast });
    return { form: flow.form({ ...nameFields(flow), onRefusal }) };
  },
};

/**
 * Make the fields, and what checks and keeps their values.
 *
 * @param {import("./flow.js").Flow} flow
 */
export function nameFields(flow) {
  const { config, draft } = flow;
  const isGiven = draft.get("isNameGiven") === true;
  const platform = config.bedrock.enabled && !isGiven ? platformChoice(draft) : null;
  const given = isGiven ? { readonly: true, hint: t("name_given"), check: () => "" } : {}; // it has been checked
  const name = platform === null ? nameField(config, draft, given) : eitherNameField(config, draft, platform);
  const forget = () => {
    draft.update({ isNameGiven: false });
    return flow.show(flow.index, { isAgain: true });
  };
  if (isGiven) {
    name.input.after(button(t("name_other"), forget, "plain"));
  }
  const passwords = asksPassword(config) ? [accountPasswordField(config, draft, name)] : [];
  const email = config.registration.email === "optional" ? [contactField(draft)] : [];
  return {
    fields: [...(platform === null ? [] : [platform]), name, ...passwords, ...email],
    send: async (/** @type {Record<string, any>} */ values) => {
      const edition = isGiven ? draft.get("platform") : platform?.value[0];
      const username = values.username.trim();
      draft.update({ username, platform: edition, ...(email.length ? { email: values.email.trim() } : {}) });
      await check(flow);
    },
  };
}

/**
 * Take the name from a link in the game ("register?name=Steve"), and remove it from the address. It may be changed, and
 * is not signed: that needs a plugin of ours in the game, and anyone may join with a name that is free.
 *
 * @param {Draft} draft
 * @param {Config} config
 */
export function takeNameFromAddress(draft, { bedrock, usernameRegex }) {
  const address = new URL(location.href);
  const username = address.searchParams.get("name");
  if (username === null) {
    return;
  }
  address.searchParams.delete("name");
  history.replaceState(history.state, "", address);
  const isBedrock = bedrock.enabled && Boolean(bedrock.prefix) && username.startsWith(bedrock.prefix ?? "");
  if (matches(username, isBedrock ? (bedrock.usernameRegex ?? "") : usernameRegex)) {
    const edition = bedrock.enabled ? { platform: isBedrock ? "bedrock" : "java" } : {};
    draft.update({ username, isNameGiven: true, ...edition });
  }
}

/** @param {Draft} draft */
function platformChoice(draft) {
  const options = ["java", "bedrock"].map((value) => ({ value, text: t(`platform_${value}`) }));
  return new Choice("platform", t("platform"), options, { chosen: [draft.get("platform") ?? "java"].flat() });
}

/**
 * @param {Config} config
 * @param {Draft} draft
 * @param {import("../shared/form.js").FieldOptions} options
 */
function nameField({ usernameRegex }, draft, options = {}) {
  return new Field("username", t("name"), {
    autocomplete: "username",
    value: draft.get("username") ?? "",
    isTrimmed: true,
    hint: nameHint(usernameRegex),
    check: (value) => (matches(value, usernameRegex) ? "" : nameError(value, usernameRegex)),
    ...options,
  });
}

/**
 * Make the field for hosts of both editions: its hint and check follow the chosen edition.
 *
 * @param {Config} config
 * @param {Draft} draft
 * @param {Choice} platform
 */
function eitherNameField(config, draft, platform) {
  const { bedrock, usernameRegex } = config;
  const isBedrock = () => platform.value[0] === "bedrock";
  const check = (/** @type {string} */ value) => {
    const [typed, pattern] = isBedrock()
      ? [floodgateName(value, bedrock), bedrock.usernameRegex ?? ""]
      : [value, usernameRegex];
    return matches(typed, pattern) ? "" : nameError(typed, pattern);
  };
  const name = nameField(config, draft, {
    hint: (value) => (isBedrock() ? gamertagHint(value.trim(), bedrock) : nameHint(usernameRegex)),
    check,
  });
  platform.element.addEventListener("change", () => name.refresh());
  return name;
}

/**
 * Return Floodgate's name for a player of the Bedrock edition; the API does the same with the name it receives.
 *
 * @param {string} gamertag
 * @param {Config["bedrock"]} bedrock
 */
function floodgateName(gamertag, bedrock) {
  const prefix = bedrock.prefix ?? "";
  const name = (gamertag.startsWith(prefix) ? gamertag.slice(prefix.length) : gamertag).replaceAll(" ", "_");
  return name.length > LONGEST_GAMERTAG ? prefix + name : (prefix + name).slice(0, LONGEST_GAMERTAG);
}

/**
 * @param {string} value
 * @param {Config["bedrock"]} bedrock
 */
function gamertagHint(value, bedrock) {
  const hint = t("name_gamertag");
  return value ? `${hint}\n${t("name_on_server", { name: floodgateName(value, bedrock) })}` : hint;
}

/**
 * Put the usual patterns into words.
 *
 * @param {string} pattern
 */
function nameHint(pattern) {
  const length = USUAL_LENGTH.exec(pattern);
  if (length === null || !USUAL_CHARACTERS.test(pattern)) {
    return t("name_pattern", { pattern });
  }
  return t("name_usual", { minLength: length[1], maxLength: length[2] });
}

/**
 * Say what is wrong with a name, if the pattern is one of the usual ones.
 *
 * @param {string} name
 * @param {string} pattern
 */
function nameError(name, pattern) {
  const [, minLength, maxLength] = USUAL_LENGTH.exec(pattern) ?? [];
  if (minLength === undefined || !USUAL_CHARACTERS.test(pattern)) {
    return t("name_wrong");
  }
  if (!(pattern.includes("_.]") ? /^[\w.]*$/ : /^\w*$/).test(name)) {
    return t("name_characters");
  }
  return t(name.length < Number(minLength) ? "name_short" : "name_long", { minLength, maxLength });
}

/**
 * @param {Config} config
 * @param {Draft} draft
 * @param {Field} name
 */
function accountPasswordField(config, draft, name) {
  const isOptional = config.registration.password === "optional";
  return passwordField("password", t("password"), config, {
    isOptional,
    value: draft.get("password") ?? "",
    also: (value) => (value.toLowerCase() === name.value.trim().toLowerCase() ? t("password_is_name") : ""),
    note: isOptional ? t("password_later") : "",
  });
}

/** @param {Draft} draft */
function contactField(draft) {
  return emailField(draft.get("email") ?? "", { isOptional: true, hint: t("email_about") });
}

/**
 * Give a refusal of a name the words that help here: where to log in, or until when it is held.
 *
 * @param {import("../shared/api.js").Refusal} refusal
 */
export function explain(refusal) {
  if (refusal.code === "reapply_later") {
    const key = refusal.field === "email" ? "reapply_later_address" : "reapply_later";
    refusal.message = t(key, { date: formatTime(refusal.body.reapplyAt) });
  } else if (refusal.code === "username_taken") {
    refusal.message = t("name_taken");
  }
  return refusal;
}

/**
 * Have the API refuse a name or password now, and not after all the other steps.
 *
 * @param {import("./flow.js").Flow} flow
 */
async function check({ api, applicant, isCodeMissing }) {
  // a registration that got no answer may have spent the proof
  if (!isCodeMissing && !api.isUnanswered("register")) {
    await api.post("register/check", applicant).catch((error) => Promise.reject(explain(asRefusal(error))));
  }
}
