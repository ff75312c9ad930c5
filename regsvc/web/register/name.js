// The name in the game and a password, with the host's rules in words.

import { Choice, Field } from "../form.js";
import { Refusal } from "../api.js";
import { matches, passwordField, repeatField } from "../passwords.js";
import { word } from "../words.js";

const USUAL_LENGTH = /\{(\d+),(\d+)\}/;
const USUAL_CHARACTERS = /\[a-zA-Z0-9_\]/;

export const nameStep = {
  id: "name",
  owns: ["username", "password", "platform"],
  isAsked: () => true,

  async draw(flow) {
    const { config, draft } = flow;
    const platform = config.bedrock.enabled ? platformChoice(draft) : null;
    const name = nameField(config, draft, platform);
    const passwords = config.registration.password === "off" ? [] : passwordFields(config, draft, name);
    const form = flow.form({
      fields: [platform, name, ...passwords].filter(Boolean),
      send: async ({ username }) => {
        draft.keep({ username: username.trim(), platform: platform?.value[0] });
        await refuseTaken(flow.api, username.trim());
      },
    });
    return { form };
  },
};

function platformChoice(draft) {
  const options = ["java", "bedrock"].map((value) => ({ value, text: word(`platform_${value}`) }));
  return new Choice("platform", word("platform"), options, { chosen: [draft.get("platform") ?? "java"].flat() });
}

function nameField(config, draft, platform) {
  const pattern = () => (platform?.value[0] === "bedrock" ? config.bedrock.usernameRegex : config.usernameRegex);
  return new Field("username", word("name"), {
    autocomplete: "username",
    value: draft.get("username") ?? "",
    hint: () => nameHint(pattern()),
    check: (value) => (matches(value.trim(), pattern()) ? "" : word("name_wrong")),
  });
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
