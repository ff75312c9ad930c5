// What a view shows is loaded again soon after an event, and after a failure until it succeeds.

import { asRefusal } from "../shared/api.js";
import { notice } from "../shared/notice.js";

const DELAY = 700; // milliseconds; many events at once cause one request
const RETRY_DELAY = 5; // seconds

export class Refresh {
  /**
   * @param {import("./view-context.js").ViewContext} context
   * @param {() => Promise<unknown>} load throws a Refusal
   */
  constructor(context, load) {
    this.context = context;
    this.load = load;
    this.error = ""; // why the last try failed
    /** @type {number | null} */
    this.timer = null;
    context.onLeave(() => this.stop());
  }

  soon() {
    this.timer ??= setTimeout(() => this.now(), DELAY);
  }

  /** Load again. If that fails, what is shown stays, and so does the focus, as the operator did not ask for it. */
  async now() {
    this.stop();
    try {
      await this.load();
      notice.clearIf(this.error);
    } catch (error) {
      const refusal = asRefusal(error);
      if (!refusal.isLoggedOut && !this.context.isOver) {
        this.error = refusal.message;
        notice.show(this.error, "bad");
        this.timer ??= setTimeout(() => this.now(), (refusal.retryAfter ?? RETRY_DELAY) * 1000);
      }
    }
  }

  stop() {
    clearTimeout(this.timer ?? undefined);
    this.timer = null;
  }
}
