import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Api } from "../../regsvc/web/static/shared/api.js";
import { recallAnswer } from "../../regsvc/web/static/shared/recall.js";

const { fetch } = globalThis;
const signal = new AbortController().signal;

afterEach(() => {
  globalThis.fetch = fetch;
});

/**
 * Let every request get this reply.
 *
 * @param {string} body
 * @param {string} type
 */
function reply(body, type) {
  globalThis.fetch = async () => new Response(body, { headers: { "Content-Type": type } });
}

test("a stream is returned as it is", async () => {
  reply("event: application\n", "text/event-stream");
  const body = await new Api().stream("events", { signal });
  assert.equal(await new Response(body).text(), "event: application\n");
});

test("a refusal is none, whatever its status: hosts may have all of them sent as 200", async () => {
  reply('{"success":false,"code":"application_not_found","message":"Gone."}', "application/json; charset=utf-8");
  await assert.rejects(new Api().stream("events", { signal }), { code: "application_not_found", message: "Gone." });
});

/**
 * Answer requests one after the other, each as its entry says: null loses the answer, a status has an empty body.
 *
 * @param {Array<object | number | null>} answers
 * @returns {Array<{ key: string | null, only: boolean }>} the keys of the requests that were sent
 */
function answerWith(...answers) {
  const sent = [];
  globalThis.fetch = async (_address, { headers }) => {
    sent.push({ key: headers["Idempotency-Key"] ?? null, only: "X-Replay-Only" in headers });
    const answer = answers.shift();
    if (answer === null) {
      throw new TypeError("network");
    }
    return typeof answer === "number"
      ? new Response(null, { status: answer })
      : new Response(JSON.stringify(answer), { status: answer.status ?? 200 });
  };
  return sent;
}

test("the key of an attempt stays until there is an answer, whatever is typed", async () => {
  const gateway = 502;
  const sent = answerWith(null, gateway, null, { success: true }, { success: true });
  for (const username of ["alice", "alice", "bob"]) {
    await assert.rejects(new Api().post("login", { username }), { code: "unreachable", isUnsure: true });
    assert.equal(new Api().isUnanswered("login"), true);
    assert.equal(new Api().isUnanswered("register"), false);
  }
  assert.deepEqual(await new Api().post("login", { username: "bob" }), { success: true });
  assert.equal(new Api().isUnanswered("login"), false);
  await new Api().post("login", { username: "bob" });
  const keys = sent.map(({ key }) => key);
  assert.match(keys[0], /^[\w-]{16,64}$/);
  assert.equal(new Set(keys.slice(0, 4)).size, 1);
  assert.notEqual(keys[4], keys[0]);
});

test("a refusal is an answer, and what was not sent is none that is waited for", async () => {
  answerWith({ success: false, code: "wrong_password", message: "No.", status: 422 }, null);
  await assert.rejects(new Api().post("login", {}), { code: "wrong_password", isUnsure: false });
  navigator.onLine = false;
  await assert.rejects(new Api().post("login", {}), { code: "unreachable", isUnsure: false });
  navigator.onLine = true;
  assert.equal(new Api().isUnanswered("login"), false);
});

test("what became of an attempt can be asked without sending it anew", async () => {
  assert.equal(await recallAnswer(new Api(), "login"), null);
  const sent = answerWith(null, null, 204, { success: true, token: "t" });
  await assert.rejects(new Api().post("login", {}));
  await assert.rejects(recallAnswer(new Api(), "login"), { code: "unreachable" });
  assert.equal(await recallAnswer(new Api(), "login"), null); // it may still arrive: the next one has the same key
  assert.equal(new Api().isUnanswered("login"), true);
  assert.equal((await recallAnswer(new Api(), "login")).token, "t");
  assert.equal(new Api().isUnanswered("login"), false);
  assert.deepEqual([new Set(sent.map(({ key }) => key)).size, sent[0].only, sent[1].only], [1, false, true]);
});
