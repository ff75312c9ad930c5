// The name in the game and a password, with the host's rules in words.

import { Choice, Field } from "../shared/form.js";
import { Refusal } from "../shared/api.js";
import { matches, passwordField, repeatField } from "../shared/password-fields.js";
import { word } from "../shared/i18n.js";

const USUAL_LENGTH = /\{(\d+),(\d+)\}/;
const USUAL_CHARACTERS = /\[a-zA-Z0-9_\]/;
const LONGEST_GAMERTAG = 16;

export const nameStep = {
  id: "name",
  owns: ["username", "password", "platform"],
  isAsked: () => true,

  async draw(flow) {
    const { config, draft } = flow;
    const platform = config.bedrock.enabled ? platformChoice(draft) : null;
    const name = platform === null ? nameField(config, draft) : nameFieldOfEither(config, draft, platform);
    const passwords = config.registration.password === "off" ? [] : passwordFields(config, draft, name);
    const form = flow.form({
      fields: [platform, name, ...passwords].filter(Boolean),
      send: async ({ username }) => {
        const edition = platform?.value[0];
        draft.keep({ username: username.trim(), platform: edition });
        await refuseTaken(flow.api, edition === "bedrock" ? inGame(username.trim(), config.bedrock) : username.trim());
      },
    });
    return { form };
  },
};

function platformChoice(draft) {
  const options = ["java", "bedrock"].map((value) => ({ value, text: word(`platform_${value}`) }));
  return new Choice("platform", word("platform"), options, { chosen: [draft.get("platform") ?? "java"].flat() });
}

function nameField({ usernameRegex }, draft, others = {}) {
  return new Field("username", word("name"), {
    autocomplete: "username",
    value: draft.get("username") ?? "",
    hint: nameHint(usernameRegex),
    check: (value) => (matches(value.trim(), usernameRegex) ? "" : word("name_wrong")),
    ...others,
  });
}

/** What is told and checked follows the choice of the edition. */
function nameFieldOfEither(config, draft, platform) {
  const { bedrock, usernameRegex } = config;
  const isBedrock = () => platform.value[0] === "bedrock";
  const isFine = (value) => (isBedrock() ? matches(inGame(value, bedrock), bedrock.usernameRegex) : matches(value, usernameRegex));
  const name = nameField(config, draft, {
    hint: (value) => (isBedrock() ? gamertagHint(value.trim(), bedrock) : nameHint(usernameRegex)),
    check: (value) => (isFine(value.trim()) ? "" : word("name_wrong")),
  });
  platform.element.addEventListener("change", () => name.follow());
  return name;
}

/** What Floodgate calls a player of the Bedrock edition; the API does the same with what it is sent. */
function inGame(gamertag, { prefix }) {
  const name = (gamertag.startsWith(prefix) ? gamertag.slice(prefix.length) : gamertag).replaceAll(" ", "_");
  return name.length > LONGEST_GAMERTAG ? prefix + name : (prefix + name).slice(0, LONGEST_GAMERTAG);
}

function gamertagHint(value, bedrock) {
  const hint = word("name_gamertag");
  return value ? `${hint}\n${word("name_on_server", { name: inGame(value, bedrock) })}` : hint;
}

/** The usual patterns in words. */
function nameHint(pattern) {
  const length = USUAL_LENGTH.exec(pattern);
  if (length === null || !USUAL_CHARACTERS.test(pattern)) {
    return word("name_pattern", { pattern });
  }
  return word("name_usual", { minLength: length[1], maxLength: length[2] });
}

function passwordFields(config, draft, name) {
  const isOptional = config.registration.password === "optional";
  const password = passwordField("password", word("password"), config, {
    isOptional,
    value: draft.get("password") ?? "",
    also: (value) => (value.toLowerCase() === name.value.trim().toLowerCase() ? word("password_is_name") : ""),
    note: isOptional ? word("password_later") : "",
  });
  const repeat = repeatField(password);
  repeat.input.value = draft.get("password") ?? "";
  return [password, repeat];
}

/** A name somebody has is told now, and not after all the other steps. */
async function refuseTaken(api, username) {
  const { data } = await api.get("user/status", { username });
  if (data.registered && data.status !== "rejected") {
    throw new Refusal(409, { code: "username_taken", field: "username", message: word("name_taken") });
  }
}
