import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Applicants } from "../../regsvc/web/static/admin/views/queue/applicants.js";
import { ReviewQueue } from "../../regsvc/web/static/admin/views/queue/review-queue.js";
import { effect, Signal } from "../../regsvc/web/static/shared/signal.js";

let waiting;
let decided;
let queue;

/** An API with these applicants; `size` of them are on a page. */
const api = {
  async get(_path, { after = null, size, sort, search = "" }) {
    const matching = waiting.filter(({ username }) => username.toLowerCase().includes(search));
    if (sort === "newest") {
      return { users: [...waiting.slice(-size)].reverse(), nextCursor: null, pagination: {} };
    }
    const start = after === null ? 0 : Number(after);
    const end = start + size;
    const nextCursor = end < matching.length ? String(end) : null;
    const users = matching.slice(start, end).map((user) => ({ ...user }));
    return { users, nextCursor, pagination: { totalCount: matching.length } };
  },
};

const names = (applicants) => [...applicants].map(({ username }) => username);

beforeEach(async () => {
  waiting = ["Alice", "Bob", "Carol"].map((username) => ({ username }));
  decided = new Signal(new Set());
  queue = new ReviewQueue(new Applicants(api), (username) => decided.value.has(username));
  await queue.load();
});

test("the oldest applicant is open first", () => {
  assert.equal(queue.current.username, "Alice");
  assert.equal(queue.position, 1);
  assert.equal(queue.left, 3);
});

test("a decision hides the applicant, and the next one follows", () => {
  decided.value = new Set(["Alice"]);
  assert.deepEqual(names(queue.shown), ["Bob", "Carol"]);
  assert.equal(queue.deselect(["alice"]), true);
  assert.equal(queue.nextAfterDecision().username, "Bob");
  assert.equal(queue.left, 2);
});

test("after the last applicant the one before is next", () => {
  queue.current = queue.applicants.find("Carol");
  decided.value = new Set(["Carol"]);
  assert.equal(queue.nextAfterDecision().username, "Bob");
});

test("the selection is what a decision is about", async () => {
  assert.deepEqual(names(queue.targets), ["Alice"]);
  queue.select(queue.applicants.find("Carol"), true);
  assert.deepEqual(names(queue.targets), ["Carol"]);
  await queue.selectAll();
  assert.equal(queue.targets.length, 3);
  queue.selectNone();
  assert.deepEqual(names(queue.targets), ["Alice"]);
});

test("loading again keeps who is open and selected", async () => {
  queue.current = queue.applicants.find("Bob");
  await queue.selectAll();
  waiting = waiting.slice(1);
  await queue.load();
  assert.equal(queue.current.username, "Bob");
  assert.deepEqual(names(queue.selected), ["Bob", "Carol"]);
});

test("who is opened while the queue is loaded again stays open: nobody else is asked or approved", async () => {
  const loading = queue.load();
  queue.current = queue.applicants.find("Bob");
  queue.select(queue.applicants.find("Carol"), true);
  await loading;
  assert.equal(queue.current.username, "Bob");
  assert.deepEqual(names(queue.selected), ["Carol"]);
});

test("an applicant who is removed while open gives way to a neighbour", async () => {
  await queue.selectAll();
  assert.equal(queue.remove("alice"), true);
  assert.equal(queue.current.username, "Bob");
  assert.deepEqual(names(queue.selected), ["Bob", "Carol"]);
  assert.equal(queue.remove("Dora"), false);
});

test("moving stops at both ends", () => {
  assert.equal(queue.neighbour(-1), null);
  assert.equal(queue.neighbour(1).username, "Bob");
  queue.current = queue.applicants.find("Carol");
  assert.equal(queue.neighbour(1), null);
});

test("whoever draws the queue hears of every change once", () => {
  const counts = [];
  effect(() => counts.push(queue.left));
  decided.value = new Set(["Alice"]);
  queue.remove("Bob");
  assert.deepEqual(counts, [3, 2, 1]);
});

test("a long queue is loaded page by page, and new applicants come last", async () => {
  waiting = Array.from({ length: 150 }, (_nothing, number) => ({ username: `player${number}` }));
  await queue.load();
  assert.equal(queue.shown.length, 30);
  assert.equal(queue.left, 150);
  assert.equal(await queue.applicants.haveChanged(), false);
  assert.equal(await queue.applicants.loadMore(), true);
  assert.equal(queue.shown.length, 130);
  assert.equal(await queue.applicants.loadMore(), true);
  assert.equal(await queue.applicants.loadMore(), false);
  waiting.push({ username: "Dora" });
  await queue.applicants.loadNew(["Dora"]);
  assert.equal(queue.shown.at(-1).username, "Dora");
  assert.equal(queue.left, 151);
  assert.equal(await queue.applicants.haveChanged(), true);
});

test("everyone is selected, also those who are not loaded yet", async () => {
  waiting = Array.from({ length: 250 }, (_nothing, number) => ({ username: `player${number}` }));
  await queue.load();
  await Promise.all([queue.applicants.loadMore(), queue.selectAll()]);
  assert.equal(queue.selected.size, 250);
  assert.equal(new Set(names(queue.shown)).size, 250);
});

test("what is undone is selected again", async () => {
  await queue.selectAll();
  decided.value = new Set(["Alice", "Bob"]);
  queue.deselect(["Alice", "Bob"]);
  decided.value = new Set();
  queue.reselect(["alice", "bob"]);
  assert.deepEqual(names(queue.selected), ["Alice", "Bob"]);
});

test("an applicant is opened by name, however far behind", async () => {
  waiting = Array.from({ length: 250 }, (_nothing, number) => ({ username: `player${number}` }));
  await queue.load();
  assert.equal(await queue.openByName("PLAYER150"), true);
  assert.equal(queue.current.username, "player150");
  assert.equal(queue.shown.length, 230);
  assert.equal(await queue.openByName("Nobody"), false);
  assert.equal(queue.current.username, "player150");
});

test("a search keeps who is open if they match", async () => {
  queue.current = queue.applicants.find("Carol");
  queue.applicants.filters = { search: "o" };
  await queue.load();
  assert.deepEqual(names(queue.shown), ["Bob", "Carol"]);
  assert.equal(queue.current.username, "Carol");
  assert.equal(queue.left, 2);
  assert.equal(await queue.applicants.loadNew(["Dora"]), false);
});
