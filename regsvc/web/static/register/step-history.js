// The browser's history: each step is an entry with a title of its own, so that Back leads to the step before.

export class StepHistory {
  /**
   * @param {string} server the name of the server, for titles
   * @param {(step: string) => unknown} onStep called when the visitor goes to the entry of a step
   */
  constructor(server, onStep) {
    this.server = server;
    /** @type {string | null} the step of the entry before this one */
    this.before = null;
    addEventListener("popstate", ({ state }) => {
      this.before = state?.before ?? null;
      if (state?.step) {
        onStep(state.step);
      }
    });
  }

  /**
   * Add an entry for a step that is now shown.
   *
   * @param {string} step
   */
  add(step) {
    this.before = history.state?.step ?? null;
    history.pushState({ step, before: this.before }, "");
  }

  /**
   * Make the current entry that of a step, for example after a reload.
   *
   * @param {string} step
   */
  replace(step) {
    this.before = history.state?.before ?? null;
    history.replaceState({ step, before: this.before }, "");
  }

  /** @param {string} text */
  setTitle(text) {
    document.title = `${text} – ${this.server}`;
  }
}
