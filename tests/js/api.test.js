import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Api } from "../../regsvc/web/static/shared/api.js";

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
