import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { recall, store } from "../../regsvc/web/static/admin/browser-storage.js";
import {
  encodeReason,
  lastReason,
  rememberReason,
  removeReason,
  savedReasons,
  saveReason,
  wordReason,
} from "../../regsvc/web/static/admin/decisions/saved-reasons.js";
import { hashFor, parseHash } from "../../regsvc/web/static/admin/hash.js";
import { ViewContext } from "../../regsvc/web/static/admin/view-context.js";
import { Draft } from "../../regsvc/web/static/register/draft.js";
import { Session } from "../../regsvc/web/static/shared/session.js";

beforeEach(() => {
  sessionStorage.clear();
  localStorage.clear();
});

test("a view and its query make an address, and back", () => {
  assert.equal(hashFor("users", { status: "banned", search: "", page: null }), "#users?status=banned");
  assert.equal(hashFor("queue"), "#queue");
  assert.deepEqual(parseHash("#users?search=a%26b&page=2"), { id: "users", query: { search: "a&b", page: "2" } });
  assert.deepEqual(parseHash(""), { id: "", query: {} });
});

test("a draft outlives a reload without its password", () => {
  new Draft().update({ username: "Alice", password: "sesame" });
  const reloaded = new Draft();
  assert.equal(reloaded.get("username"), "Alice");
  assert.equal(reloaded.get("password"), undefined);
  assert.equal(reloaded.isPasswordLost, true);
  reloaded.update({ password: "" });
  assert.equal(new Draft().isPasswordLost, false);
});

test("a draft older than an hour is forgotten", () => {
  sessionStorage.setItem(
    "companion.registration",
    JSON.stringify({ username: "Alice", keptAt: Date.now() - 3_600_001 }),
  );
  assert.equal(new Draft().get("username"), undefined);
});

test("a cleared draft leaves nothing", () => {
  const draft = new Draft();
  draft.update({ username: "Alice" });
  draft.clear();
  assert.equal(new Draft().get("username"), undefined);
});

test("a session is for one tab and one kind of page", () => {
  const session = new Session("admin");
  assert.equal(session.current, null);
  session.begin({ token: "t", username: "Olivia", isAdmin: true, message: "hello" });
  assert.deepEqual(new Session("admin").current, { token: "t", username: "Olivia", isAdmin: true });
  assert.equal(new Session("user").current, null);
  session.end();
  assert.equal(session.current, null);
});

test("a session that stays is shared by tabs until it ends", () => {
  new Session("user").begin({ token: "t", username: "Bob", isAdmin: false }, true);
  assert.equal(sessionStorage.getItem("companion.user"), null);
  const otherTab = new Session("user");
  assert.equal(otherTab.current?.username, "Bob");
  otherTab.end();
  assert.equal(new Session("user").current, null);
});

test("no session of an operator stays", () => {
  new Session("user").begin({ token: "t", username: "Olivia", isAdmin: true }, true);
  assert.equal(localStorage.getItem("companion.user"), null);
  assert.equal(new Session("user").current?.username, "Olivia");
});

test("a later login replaces one that stayed", () => {
  const session = new Session("user");
  session.begin({ token: "t", username: "Bob", isAdmin: false }, true);
  session.begin({ token: "u", username: "Carol", isAdmin: false });
  assert.equal(session.current?.username, "Carol");
  assert.equal(localStorage.getItem("companion.user"), null);
});

test("what cannot be stored is remembered until the page is left", () => {
  const { setItem, getItem } = localStorage;
  localStorage.setItem = localStorage.getItem = () => {
    throw new Error("forbidden");
  };
  store("keys", false);
  assert.equal(recall("keys", true), false);
  Object.assign(localStorage, { setItem, getItem });
});

test("an address that the operator has just gone to is left alone", () => {
  const entry = { state: null };
  globalThis.history = {
    replaceState(state, _title, hash) {
      entry.state = state;
      location.hash = hash;
    },
  };
  location.hash = "#queue";
  const context = new ViewContext({}, { id: "queue" });
  context.updateHash({ name: "Alice" }, { selected: ["Alice"] });
  assert.deepEqual([location.hash, entry.state], ["#queue?name=Alice", { selected: ["Alice"] }]);
  location.hash = "#users"; // the view is left soon, when the browser tells of it
  context.updateHash({ name: "Bob" });
  assert.equal(location.hash, "#users");
  location.hash = "#main"; // the skip link
  context.updateHash({ name: "Bob" });
  assert.deepEqual([location.hash, entry.state], ["#queue?name=Bob", null]);
});

test("saved reasons keep their order, without doubles", () => {
  localStorage.setItem("companion.texts", JSON.stringify({ reject: ["one", "two"] }));
  saveReason("reject", "three");
  saveReason("reject", "one");
  assert.deepEqual(savedReasons("reject"), ["two", "three", "one"]);
  removeReason("reject", "three");
  assert.deepEqual(savedReasons("reject"), ["two", "one"]);
  rememberReason("ban", "spam");
  assert.deepEqual(JSON.parse(localStorage.getItem("companion.last_texts")), { ban: "spam" });
});

test("built-in reasons are codes, also those that an earlier version saved in words", () => {
  assert.deepEqual(savedReasons("ban"), ["ban.griefing", "ban.cheating"]);
  localStorage.setItem("companion.texts", JSON.stringify({ ban: ["Cheating", "Cheating, twice"] }));
  localStorage.setItem("companion.last_texts", JSON.stringify({ ban: "Cheating" }));
  assert.deepEqual(savedReasons("ban"), ["ban.cheating", "Cheating, twice"]);
  assert.equal(lastReason("ban"), "ban.cheating");
  assert.deepEqual(["ban.cheating", "ban.unknown", "spam"].map(wordReason), ["Cheating", "ban.unknown", "spam"]);
  assert.equal(encodeReason("reject", "Cheating"), "Cheating");
});
