import assert from "node:assert/strict";
import { test } from "node:test";

import { EventStream } from "../../regsvc/web/static/shared/event-stream.js";

/** An API whose stream is made of these texts, then stays open until it is aborted. */
function apiWith(texts, requests = []) {
  return {
    async stream(_path, { signal, headers }) {
      requests.push(headers);
      return new ReadableStream({
        start(controller) {
          texts.forEach((text) => controller.enqueue(new TextEncoder().encode(text)));
          signal.addEventListener("abort", () => controller.error(new Error("aborted")));
        },
      });
    },
  };
}

async function heardFrom(texts) {
  const heard = [];
  const states = [];
  const stream = new EventStream(apiWith(texts), {
    onEvent: (name, data) => heard.push([name, data]),
    onState: ({ is }) => states.push(is),
  });
  await stream.start();
  await new Promise((resolve) => setTimeout(resolve, 20));
  stream.stop();
  return { heard, states, stream };
}

test("events arrive in order, wherever the network cuts them", async () => {
  const { heard, states } = await heardFrom([
    'id: 1\nevent: user_registered\ndata: {"userna',
    'me": "Alice"}\n\nid: 2\nevent: user_approved\n',
    'data: {"username": "Alice"}\n\n',
  ]);
  assert.deepEqual(heard, [
    ["user_registered", { username: "Alice" }],
    ["user_approved", { username: "Alice" }],
  ]);
  assert.deepEqual(states, ["live", "off"]);
});

test("a repeated event is delivered once", async () => {
  const block = 'id: 7\nevent: user_banned\ndata: {"username": "Bob"}\n\n';
  const { heard, stream } = await heardFrom([block, block]);
  assert.equal(heard.length, 1);
  assert.equal(stream.lastId, "7");
});

test("a stream ends when the network is gone, and is opened again when it is back", async () => {
  const states = [];
  const requests = [];
  const heard = [];
  const stream = new EventStream(apiWith([], requests), {
    onEvent: (name) => heard.push(name),
    onState: ({ is }) => states.push(is),
  });
  await stream.start();
  dispatchEvent(new Event("offline"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(states, ["live", "lost"]);
  dispatchEvent(new Event("online"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(states, ["live", "lost", "live"]);
  assert.equal(requests.length, 2);
  assert.deepEqual(heard, ["missed"]);
  stream.stop();
});

test("comments that keep the connection alive are no events", async () => {
  const { heard } = await heardFrom([": ping\n\n"]);
  assert.deepEqual(heard, []);
});
