import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { DecisionSender } from "../../regsvc/web/static/admin/pending/decision-sender.js";
import { PendingDecisions } from "../../regsvc/web/static/admin/pending/pending-decisions.js";
import { Refusal } from "../../regsvc/web/static/shared/api.js";

const UNDO_TIME = 10_000;

/** An API that records what it is sent and answers with `reply(usernames)`, or rejects with what that throws. */
class FakeApi {
  session = { current: { token: "t" } };
  sent = [];
  reply = (usernames) => usernames.map((username) => ({ username, success: true, status: "approved" }));

  async post(path, body) {
    this.sent.push({ path, ...body });
    return { results: this.reply(body.usernames) };
  }
}

// A clock of our own: Node.js 18 cannot replace the date.
let now;
let ticks;
Date.now = () => now;
globalThis.setInterval = (tick) => ticks.push(tick);

let api;
let heard;
let pending;
let sender;

beforeEach(() => {
  now = 1_900_000_000_000;
  ticks = [];
  sessionStorage.clear();
  api = new FakeApi();
  heard = [];
  pending = new PendingDecisions((what, entry) => heard.push(entry === null ? what : `${what} ${entry.usernames}`));
  sender = new DecisionSender(api, pending);
  pending.begin("Olivia");
  heard = [];
});

const settled = () => new Promise((resolve) => setImmediate(resolve));

async function pass(milliseconds) {
  for (let passed = 0; passed < milliseconds; passed += 1000) {
    now += 1000;
    ticks.forEach((tick) => tick());
  }
  await settled();
}

test("a decision is sent once its undo time is over", async () => {
  pending.add({ decision: "approve", usernames: ["Alice"] });
  await pass(UNDO_TIME - 1000);
  assert.equal(api.sent.length, 0);
  await pass(1000);
  assert.deepEqual(api.sent, [{ path: "admin/user/approve", usernames: ["Alice"] }]);
  assert.equal(pending.entries.length, 0);
});

test("an undone decision is never sent", async () => {
  const entry = pending.add({ decision: "approve", usernames: ["Alice"] });
  assert.equal(pending.find("alice"), entry);
  assert.equal(pending.undoLast(), entry);
  assert.equal(pending.undo(entry), false);
  await pass(UNDO_TIME * 2);
  assert.equal(api.sent.length, 0);
  assert.equal(pending.find("Alice"), null);
});

test("alike decisions share a request, others do not", async () => {
  pending.add({ decision: "approve", usernames: ["Alice"] });
  pending.add({ decision: "approve", usernames: ["Bob"] });
  pending.add({ decision: "reject", usernames: ["Carol"], reason: "no" });
  assert.equal(await sender.flush(), true);
  assert.deepEqual(
    api.sent.map(({ usernames }) => usernames),
    [["Alice", "Bob"], ["Carol"]],
  );
});

test("at most fifty names go into one request", async () => {
  const usernames = Array.from({ length: 120 }, (_nothing, number) => `player${number}`);
  pending.add({ decision: "approve", usernames });
  await sender.flush();
  assert.deepEqual(
    api.sent.map((request) => request.usernames.length),
    [50, 50, 20],
  );
});

test("a second decision about a user replaces the first", async () => {
  pending.add({ decision: "approve", usernames: ["Alice", "Bob"] });
  pending.add({ decision: "reject", usernames: ["alice"] });
  assert.deepEqual(
    pending.entries.map(({ decision, usernames }) => [decision, usernames]),
    [
      ["approve", ["Bob"]],
      ["reject", ["alice"]],
    ],
  );
});

test("without an answer a decision stays and can be sent again", async () => {
  api.reply = () => {
    throw Object.assign(new Refusal(0, {}), { isUnsure: true });
  };
  const entry = pending.add({ decision: "approve", usernames: ["Alice"] });
  assert.equal(await sender.flush(), false);
  assert.equal(entry.state, "unsent");
  assert.equal(entry.isUnsure, true);

  api.reply = new FakeApi().reply; // the server knows the attempt
  assert.equal(await sender.flush(), true);
  assert.equal(pending.entries.length, 0);
});

test("time is added to a membership once, and nothing else of the kind is sent before it has an answer", async () => {
  const month = { decision: "membership", shown: { Alice: "approved", Bob: "approved" }, for: "30 days" };
  api.reply = () => {
    throw Object.assign(new Refusal(0, {}), { isUnsure: true });
  };
  pending.add({ ...month, usernames: ["Alice"] });
  pending.add({ ...month, usernames: ["Bob"] });
  pending.add({ decision: "approve", usernames: ["Carol"] });
  assert.equal(await sender.flush(), false);
  const names = () => api.sent.splice(0).map(({ usernames, for: length }) => [...usernames, length]);
  assert.deepEqual(names(), [
    ["Alice", "30 days"],
    ["Carol", undefined],
  ]);

  api.reply = (usernames) => usernames.map((username) => ({ username, success: true, status: "approved" }));
  assert.equal(await sender.flush(), true);
  assert.deepEqual(names(), [
    ["Alice", "30 days"],
    ["Bob", "30 days"],
    ["Carol", undefined],
  ]);
});

test("what could not be sent is sent again by itself, each time after a longer wait", async () => {
  api.reply = () => {
    throw new Refusal(0, {});
  };
  const entry = pending.add({ decision: "approve", usernames: ["Alice"] });
  await pass(UNDO_TIME);
  const waits = [];
  for (let index = 0; index < 8; index += 1) {
    waits.push(entry.secondsLeft);
    await pass(entry.secondsLeft * 1000);
  }
  assert.deepEqual(waits, [2, 4, 8, 15, 30, 60, 60, 60]);
  assert.equal(api.sent.length, 9);

  api.reply = () => {
    throw new Refusal(429, { code: "rate_limited", message: "later" }, 90);
  };
  await pass(60_000);
  assert.equal(entry.secondsLeft, 90);

  api.reply = new FakeApi().reply;
  dispatchEvent(new Event("online")); // waits no longer
  await settled();
  assert.equal(api.sent.length, 11);
  assert.equal(pending.entries.length, 0);
});

test("what the API does not understand is sent again on request only", async () => {
  api.reply = () => {
    throw new Refusal(400, { code: "invalid_request", message: "no" });
  };
  const entry = pending.add({ decision: "approve", usernames: ["Alice"] });
  await pass(UNDO_TIME * 20);
  dispatchEvent(new Event("online"));
  await settled();
  assert.equal(api.sent.length, 1);
  assert.deepEqual([entry.state, entry.message], ["unsent", "no"]);
});

test("a user whose deletion was carried out, but not answered, is not a refusal", async () => {
  api.reply = () => {
    throw Object.assign(new Refusal(502, {}), { isUnsure: true });
  };
  pending.add({ decision: "delete", usernames: ["Alice"] });
  await pass(UNDO_TIME);
  api.reply = (usernames) => usernames.map((username) => ({ username, success: false, code: "user_not_found" }));
  await pass(2000);
  assert.equal(pending.entries.length, 0);
});

test("a refusal for good is shown until it is dismissed", async () => {
  api.reply = (usernames) => usernames.map((username) => ({ username, success: false, code: "forbidden" }));
  pending.add({ decision: "ban", usernames: ["Alice"] });
  await sender.flush();
  assert.deepEqual(
    pending.entries.map(({ state }) => state),
    ["refused"],
  );
  assert.equal(pending.find("Alice"), null);
  pending.dismiss(pending.entries[0]);
  assert.equal(pending.entries.length, 0);
});

test("a temporary refusal of one user keeps that user alone", async () => {
  api.reply = (usernames) =>
    usernames.map((username) =>
      username === "Bob"
        ? { username, success: false, code: "rate_limited", message: "later" }
        : { username, success: true },
    );
  pending.add({ decision: "approve", usernames: ["Alice", "Bob"] });
  await sender.flush();
  assert.deepEqual(
    pending.entries.map(({ state, usernames, message }) => [state, usernames, message]),
    [["unsent", ["Bob"], "later"]],
  );
});

test("pending decisions survive a reload of the tab, for the same operator", () => {
  pending.add({ decision: "ban", usernames: ["Alice"], reason: "spam", expiresAt: null });
  const reloaded = new PendingDecisions(() => {});
  assert.deepEqual(reloaded.begin("olivia"), []);
  assert.deepEqual(
    reloaded.entries.map(({ decision, usernames, body }) => [decision, usernames, body.reason, body.expiresAt]),
    [["ban", ["Alice"], "spam", null]],
  );
});

test("another operator's pending decisions are dropped and named", () => {
  pending.add({ decision: "ban", usernames: ["Alice"] });
  const reloaded = new PendingDecisions(() => {});
  assert.deepEqual(
    reloaded.begin("Oscar").map(({ usernames }) => usernames),
    [["Alice"]],
  );
  assert.equal(reloaded.entries.length, 0);
});

test("leaving the page sends what is pending at once", async () => {
  pending.add({ decision: "approve", usernames: ["Alice"] });
  dispatchEvent(new Event("pagehide"));
  await settled();
  assert.deepEqual(
    api.sent.map(({ usernames }) => usernames),
    [["Alice"]],
  );
  assert.equal(pending.entries.length, 0);
});

test("signing out holds what is pending, and after the next login it can be undone again", async () => {
  const entry = pending.add({ decision: "approve", usernames: ["Alice"] });
  pending.pause("logged out");
  assert.deepEqual([entry.state, entry.message], ["unsent", "logged out"]);
  await pass(UNDO_TIME * 2);
  assert.equal(api.sent.length, 0);
  pending.begin("Olivia");
  assert.deepEqual([entry.state, entry.secondsLeft], ["waiting", 10]);
  await pass(UNDO_TIME);
  assert.equal(api.sent.length, 1);
});

test("every change is announced", async () => {
  const entry = pending.add({ decision: "approve", usernames: ["Alice"] });
  pending.undo(entry);
  pending.add({ decision: "approve", usernames: ["Bob"] });
  await sender.flush();
  assert.deepEqual(heard, ["added Alice", "undone Alice", "added Bob", "sending Bob", "sent Bob", "changed Bob"]);
});
