// The page behind a mailed link: it takes the token out of the address, and sets a password with it.
"use strict";

const ANY_CHARACTERS = "^.*$";
const VISIBLE_ASCII = "^[!-~]*$";

let token = takeToken();
let rules = null; // for passwords, as the API tells them; null while they are not known
let isSending = false;

/** The token behind the "#", "" if there is none. From now on it is in neither the address bar nor the history. */
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (location.hash) {
    history.replaceState(null, "", location.pathname);
  }
  return found;
}

/** What the API says, be it a refusal. Rejects where it says nothing: no network, or a proxy's own page. */
async function ask(path, body) {
  const response = await fetch(path, {
    method: body ? "POST" : "GET",
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body && JSON.stringify(body),
    credentials: "omit",
  });
  return response.json();
}

/** The words with each `{name}` replaced by its fact. */
function fill(words, facts) {
  return words.replace(/\{(\w+)\}/g, (whole, name) => facts[name] ?? whole);
}

addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("form");
  const password = document.getElementById("password");
  const repeat = document.getElementById("repeat");
  const submit = document.getElementById("submit");
  const notice = document.getElementById("notice");
  const words = form.dataset;

  function say(text, isBad = false) {
    notice.textContent = text;
    notice.classList.toggle("bad", isBad);
  }

  /** Say what is wrong and lead to the field that is to be changed. */
  function object(text, field = password) {
    say(text, true);
    field.setAttribute("aria-invalid", "true");
    field.focus();
  }

  function open() {
    form.reset();
    form.hidden = !token;
    say(token ? "" : words.linkIncomplete, !token);
  }

  /** There is nothing left to do with this link. */
  function close(text, isBad) {
    form.reset();
    form.hidden = true;
    say(text, isBad);
    notice.focus();
  }

  async function showRules() {
    const { registration } = (await ask("api/config")).config;
    rules = {
      minLength: registration.passwordMinLength,
      maxLength: registration.passwordMaxLength,
      passwordRegex: registration.passwordRegex,
    };
    // For password managers. A `maxlength` would silently shorten what is pasted.
    password.setAttribute("passwordrules", `minlength: ${rules.minLength}; maxlength: ${rules.maxLength};`);
    const hints = [words.length];
    if (rules.passwordRegex !== ANY_CHARACTERS) {
      hints.push(rules.passwordRegex === VISIBLE_ASCII ? words.characters : words.pattern);
    }
    document.getElementById("hint").textContent = hints.map((hint) => fill(hint, rules)).join("\n");
  }

  /** Whether the fields may be sent; the other rules are the API's to check. */
  function check() {
    const { length } = password.value;
    if (!length) {
      object(words.missing);
    } else if (rules && length < rules.minLength) {
      object(fill(words.tooShort, rules));
    } else if (rules && length > rules.maxLength) {
      object(fill(words.tooLong, rules));
    } else if (password.value !== repeat.value) {
      object(words.mismatch, repeat);
    } else {
      return true;
    }
    return false;
  }

  async function setPassword() {
    const language = document.documentElement.lang;
    const reply = await ask("api/password/reset", { token, newPassword: password.value, language });
    if (reply.success) {
      token = "";
      // those who still wait for their review have a password now, but may not join yet
      close(reply.status === "approved" ? words.doneMayJoin : words.done);
    } else if (reply.field === "token") {
      close(reply.message, true);
    } else if (reply.field === "newPassword") {
      object(reply.message);
    } else {
      say(reply.message ?? words.unreachable, true);
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    password.removeAttribute("aria-invalid");
    repeat.removeAttribute("aria-invalid");
    if (isSending || !check()) {
      return;
    }
    isSending = true;
    submit.setAttribute("aria-disabled", "true");
    say(words.sending);
    try {
      await setPassword();
    } catch {
      say(words.unreachable, true);
    } finally {
      isSending = false;
      submit.removeAttribute("aria-disabled");
    }
  });

  // Another link opened in the same tab changes what is behind the "#", and loads nothing.
  addEventListener("hashchange", () => {
    const found = takeToken();
    if (found) {
      token = found;
      open();
    }
  });

  open();
  showRules().catch(() => {}); // without a hint, the API's refusal tells the rule
});
