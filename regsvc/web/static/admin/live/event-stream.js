// What happens to users, while it happens: the stream of events, read with the token, and begun again when it breaks.

const PATIENCE = 2000; // milliseconds, until one begins without it
const SILENCE = 50_000; // milliseconds without a sign of life; one comes every twenty seconds
const WAITS = [1, 2, 4, 8, 15, 30]; // seconds, after one failure, after two…
const REMEMBERED = 2000; // events, so that none is told twice
const MOST_REPEATED = 500; // events that the companion tells of what was missed

export class Live {
  /**
   * `hear(name, data)` is told every event; and "missed", without data, when some may have been missed: whatever is
   * shown should be asked for again. `tell(state)` is told `{is: "live"}` or `{is: "lost", refusal}`, and `{is: "off"}`.
   */
  constructor(api, { hear, tell }) {
    Object.assign(this, { api, hear, tell });
    this.controller = null;
    this.isLive = false;
    this.lastId = null;
    this.isBehind = false; // whether something may have happened that was neither shown nor heard
    this.seen = new Set();
    addEventListener("online", () => this.wake?.());
  }

  /** Comes back when it is live, or when it is known that it is not; after a while in any case. */
  async start() {
    this.controller = new AbortController();
    const known = new Promise((resolve) => (this.isKnown = resolve));
    setTimeout(this.isKnown, PATIENCE);
    this.isBehind = false;
    this.follow(this.controller);
    await known;
    this.isBehind = !this.isLive;
  }

  stop() {
    this.controller?.abort();
    this.controller = null;
    this.wake?.();
    this.isLive = false;
    this.tell({ is: "off" });
  }

  async follow(controller) {
    let failures = 0;
    while (!controller.signal.aborted) {
      let refusal = null;
      try {
        await this.listen(controller, () => {
          failures = 0;
          this.isLive = true;
          this.isKnown();
          this.tell({ is: "live" });
          if (this.isBehind && this.lastId === null) {
            this.hear("missed");
          }
        });
      } catch (error) {
        refusal = error;
      }
      if (controller.signal.aborted) {
        return;
      }
      [this.isLive, this.isBehind] = [false, true];
      this.isKnown();
      this.tell({ is: "lost", refusal });
      await this.wait(refusal?.retryAfter ?? WAITS[Math.min(failures, WAITS.length - 1)]);
      failures += 1;
    }
  }

  /** One stream, to its end. Throws a Refusal, or what the browser throws when a connection breaks. */
  async listen({ signal }, begun) {
    const connection = new AbortController();
    const end = () => connection.abort();
    signal.addEventListener("abort", end);
    let silence = setTimeout(end, SILENCE);
    try {
      const headers = this.lastId === null ? {} : { "Last-Event-ID": this.lastId };
      const body = await this.api.stream("events", { signal: connection.signal, headers });
      begun();
      let rest = "";
      let repeated = 0;
      const isRepeating = this.lastId !== null;
      for await (const text of pieces(body)) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE);
        const blocks = (rest + text).split("\n\n");
        rest = blocks.pop();
        repeated += blocks.length;
        blocks.forEach((block) => this.take(block));
        if (isRepeating && repeated - blocks.length < MOST_REPEATED && repeated >= MOST_REPEATED) {
          this.hear("missed");
        }
      }
    } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", end);
      connection.abort();
    }
  }

  take(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: ?(.*)/s, 2)));
    if (fields.event === undefined || this.seen.has(fields.id)) {
      return;
    }
    if (fields.id !== undefined) {
      this.lastId = fields.id;
      this.seen.add(fields.id);
      if (this.seen.size > REMEMBERED) {
        this.seen.delete(this.seen.values().next().value);
      }
    }
    this.hear(fields.event, JSON.parse(fields.data));
  }

  /** So many seconds, or until the network is back. */
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

/** The texts of a body as they come: not every browser can loop over the body itself. */
async function* pieces(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    yield value;
  }
}
