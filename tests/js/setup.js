// What the scripts expect of a browser before they are imported: a page's texts, an address and storage. There is no
// DOM: these tests are for the modules that keep state, and tests/browser is for what they draw.

import { register } from "node:module";

// Without a package.json beside them, Node.js before 20.19 takes the pages' scripts for CommonJS.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  register("./modules.js", import.meta.url);
}

class MemoryStorage {
  #values = new Map();

  getItem(key) {
    return this.#values.get(key) ?? null;
  }

  setItem(key, value) {
    this.#values.set(key, String(value));
  }

  removeItem(key) {
    this.#values.delete(key);
  }

  clear() {
    this.#values.clear();
  }
}

const texts = {
  unreachable: "The server could not be reached.",
  unsure: "No answer came.",
  "reason.ban.griefing": "Griefing",
  "reason.ban.cheating": "Cheating",
};

const page = new EventTarget();
Object.assign(globalThis, {
  addEventListener: page.addEventListener.bind(page),
  removeEventListener: page.removeEventListener.bind(page),
  dispatchEvent: page.dispatchEvent.bind(page),
  location: { href: "http://localhost/admin", hash: "", protocol: "http:", pathname: "/admin", reload() {} },
  sessionStorage: new MemoryStorage(),
  localStorage: new MemoryStorage(),
  document: {
    body: { dataset: { texts: JSON.stringify(texts), languages: "en zh" } },
    documentElement: { lang: "en" },
    getElementById: () => null,
  },
});
globalThis.window = globalThis;
Object.defineProperty(globalThis, "navigator", { value: { onLine: true }, configurable: true });
