// The words of this page, in the language it was served in. The server chooses it: the visitor's choice (a cookie), the
// browser's wish, or the host's.

const words = JSON.parse(document.body.dataset.words);
const CHOICE = "companion_language";
const A_YEAR = 365 * 24 * 3600; // seconds

const language = document.documentElement.lang;
const languages = document.body.dataset.languages.split(" ");

/** The words for a key of `[page.<name>]` or `[page.common]`, each `{name}` replaced by its fact. */
function word(key, facts = {}) {
  const text = words[key];
  if (text === undefined) {
    throw new Error(`no words for ${key}`);
  }
  return fill(text, facts);
}

/** Whether there are words for a key that is made of what the API said, such as `status_${status}`. */
function hasWord(key) {
  return key in words;
}

function fill(text, facts) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => facts[name] ?? whole);
}

/** What a language calls itself: "中文". */
function nameOf(tag) {
  try {
    return new Intl.DisplayNames([tag], { type: "language" }).of(tag);
  } catch {
    return tag;
  }
}

/** Sent to the window before the page is shown again in another language: time to keep what is in memory alone. */
const LANGUAGE_SWITCH = "languageswitch";

/** Remember the choice for all our pages, and show this one again in it. */
function switchLanguage(tag) {
  remember(tag);
  dispatchEvent(new Event(LANGUAGE_SWITCH));
  location.reload();
}

function remember(tag) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${CHOICE}=${tag}; path=/; max-age=${A_YEAR}; samesite=lax${secure}`;
}

/** A link that names a language ("register?language=zh") has chosen for the other pages, too; and it can be switched. */
function takeFromAddress() {
  const address = new URL(location.href);
  const named = address.searchParams.get("language");
  if (named !== null) {
    if (named.toLowerCase().startsWith(language)) {
      remember(language); // and not what is spoken instead, where there are no words in it
    }
    address.searchParams.delete("language");
    history.replaceState(history.state, "", address);
  }
}

takeFromAddress();

/** A moment (epoch milliseconds) as people here write it; "" for null. */
function moment(milliseconds) {
  return milliseconds === null || milliseconds === undefined
    ? ""
    : new Date(milliseconds).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
}

export { word, hasWord, language, languages, nameOf, switchLanguage, LANGUAGE_SWITCH, moment };
