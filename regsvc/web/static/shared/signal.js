// Signals: values that know which effects read them, so that a change redraws exactly what shows it.

/** @typedef {{ run: () => void, sources: Set<Set<Effect>> }} Effect */

/** @type {Effect | null} */
let running = null;
/** @type {Set<Effect>} */
const queue = new Set();
let batches = 0;

/**
 * A value that effects follow. Assigning the same value again changes nothing.
 *
 * @template T
 */
export class Signal {
  /** @type {Set<Effect>} */
  #readers = new Set();
  /** @type {T} */
  #value;

  /** @param {T} value */
  constructor(value) {
    this.#value = value;
  }

  get value() {
    if (running !== null) {
      this.#readers.add(running);
      running.sources.add(this.#readers);
    }
    return this.#value;
  }

  set value(value) {
    if (!Object.is(value, this.#value)) {
      this.#value = value;
      this.notify();
    }
  }

  /** Run the effects that read this signal: for a value that was changed in place. */
  notify() {
    batch(() => this.#readers.forEach((reader) => queue.add(reader)));
  }
}

/**
 * Run `action` now, and again whenever a signal that it read has changed.
 *
 * @param {() => void} action
 * @returns {() => void} ends it
 */
export function effect(action) {
  /** @type {Effect} */
  const self = {
    sources: new Set(),
    run() {
      forget(self);
      const outer = running;
      running = self;
      try {
        action();
      } finally {
        running = outer;
      }
    },
  };
  self.run();
  return () => {
    forget(self);
    queue.delete(self);
  };
}

/**
 * Change several signals as one: effects run once, after the last change.
 *
 * @template T
 * @param {() => T} change
 * @returns {T}
 */
export function batch(change) {
  batches += 1;
  try {
    return change();
  } finally {
    batches -= 1;
    if (batches === 0) {
      flush();
    }
  }
}

/**
 * Read signals without following them.
 *
 * @template T
 * @param {() => T} read
 * @returns {T}
 */
export function untracked(read) {
  const outer = running;
  running = null;
  try {
    return read();
  } finally {
    running = outer;
  }
}

function flush() {
  for (const reader of queue) {
    queue.delete(reader);
    reader.run();
  }
}

/** @param {Effect} effect */
function forget(effect) {
  effect.sources.forEach((readers) => readers.delete(effect));
  effect.sources.clear();
}
