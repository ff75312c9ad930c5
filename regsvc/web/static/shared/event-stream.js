// Events as they happen: a stream that is read with the token, and reopened when it breaks.

const START_TIMEOUT = 2000; // milliseconds, after which the page is shown without a stream
const SILENCE_TIMEOUT = 50_000; // milliseconds; the server sends a sign of life every twenty seconds
const RETRY_DELAYS = [1, 2, 4, 8, 15, 30]; // seconds, after the first failure, the second…
const REMEMBERED_IDS = 2000; // events, so that none is delivered twice
const MAX_REPEATED = 500; // missed events that the server repeats

/**
 * @typedef {object} Listeners
 * @property {(name: string, data?: any) => void} onEvent called for every event, and with "missed" when some may have
 *   been missed: then whatever is shown should be loaded again
 * @property {(state: { is: "live" | "lost" | "off", error?: any }) => void} onState
 */

export class EventStream {
  /**
   * @param {import("./api.js").Api} api
   * @param {Listeners} listeners
   * @param {string} path
   */
  constructor(api, { onEvent, onState }, path = "events") {
    this.api = api;
    this.path = path;
    this.onEvent = onEvent;
    this.onState = onState;
    /** @type {AbortController | null} */
    this.controller = null;
    this.isLive = false;
    /** @type {string | null} */
    this.lastId = null;
    this.isBehind = false; // whether something may have happened that was neither shown nor received
    /** @type {Set<string>} */
    this.seen = new Set();
    this.failures = 0; // in a row
    this.wake = () => {};
    this.disconnect = () => {};
    this.finishStart = () => {};
    addEventListener("offline", () => this.disconnect());
    addEventListener("online", () => {
      this.failures = 0;
      this.wake();
    });
  }

  /** Open the stream, in place of an earlier one; resolves when it is live, when it has failed, or after a timeout. */
  async start() {
    this.controller?.abort();
    this.controller = new AbortController();
    /** @type {Promise<void>} */
    const started = new Promise((resolve) => {
      this.finishStart = resolve;
    });
    setTimeout(this.finishStart, START_TIMEOUT);
    this.isBehind = false;
    this.follow(this.controller);
    await started;
    this.isBehind = !this.isLive;
  }

  stop() {
    this.controller?.abort();
    this.controller = null;
    this.wake();
    this.isLive = false;
    this.onState({ is: "off" });
  }

  /** @param {AbortController} controller */
  async follow(controller) {
    this.failures = 0;
    while (!controller.signal.aborted) {
      /** @type {any} */
      let error = null;
      try {
        await this.listen(controller, () => {
          this.failures = 0;
          this.begin();
        });
      } catch (caught) {
        error = caught;
      }
      if (controller.signal.aborted) {
        return;
      }
      this.isLive = false;
      this.isBehind = true;
      this.finishStart();
      this.onState({ is: "lost", error });
      await this.wait(error?.retryAfter ?? RETRY_DELAYS[Math.min(this.failures, RETRY_DELAYS.length - 1)]);
      this.failures += 1;
    }
  }

  begin() {
    this.isLive = true;
    this.finishStart();
    this.onState({ is: "live" });
    if (this.isBehind && this.lastId === null) {
      this.onEvent("missed");
    }
  }

  /**
   * Read one stream to its end. Throws a Refusal, or what the browser throws when a connection breaks.
   *
   * @param {{ signal: AbortSignal }} controller
   * @param {() => void} onOpen
   */
  async listen({ signal }, onOpen) {
    const connection = new AbortController();
    const abort = () => connection.abort();
    this.disconnect = abort;
    signal.addEventListener("abort", abort);
    let silence = setTimeout(abort, SILENCE_TIMEOUT);
    try {
      /** @type {Record<string, string>} */
      const headers = this.lastId === null ? {} : { "Last-Event-ID": this.lastId };
      const body = await this.api.stream(this.path, { signal: connection.signal, headers });
      onOpen();
      let rest = "";
      let repeated = 0;
      const isRepeating = this.lastId !== null;
      for await (const text of readTexts(body)) {
        clearTimeout(silence);
        silence = setTimeout(abort, SILENCE_TIMEOUT);
        const blocks = (rest + text).split("\n\n");
        rest = blocks.pop() ?? "";
        const before = repeated;
        repeated += blocks.length;
        blocks.forEach((block) => this.receive(block));
        if (isRepeating && before < MAX_REPEATED && repeated >= MAX_REPEATED) {
          this.onEvent("missed");
        }
      }
    } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", abort);
      connection.abort();
    }
  }

  /** @param {string} block the lines of one event */
  receive(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: ?(.*)/s, 2)));
    if (fields.event === undefined || this.seen.has(fields.id)) {
      return;
    }
    if (fields.id !== undefined) {
      this.lastId = fields.id;
      this.seen.add(fields.id);
      if (this.seen.size > REMEMBERED_IDS) {
        const [oldest] = this.seen;
        this.seen.delete(oldest);
      }
    }
    this.onEvent(fields.event, JSON.parse(fields.data));
  }

  /**
   * Wait, or until the network is back.
   *
   * @param {number} seconds
   * @returns {Promise<void>}
   */
  wait(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/**
 * Yield the text of a body as it arrives: not every browser can iterate over the body itself.
 *
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 */
async function* readTexts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    yield value;
  }
}
