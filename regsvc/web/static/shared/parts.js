// The parts of this page that are loaded after it: scripts with their style and texts. The server names their files.

import { asRefusal, Refusal } from "./api.js";
import { t, texts } from "./i18n.js";

const TIMEOUT = 30_000; // milliseconds
const GONE = 404;
const FILES = 3; // of each part: script, style, texts
const files = (document.body.dataset.parts ?? "").split(" ");

/** @type {Array<Promise<unknown> | null>} null: it was not asked for yet, or could not be loaded */
const loading = [];
/** @type {Record<string, unknown>} what the parts give those that come later */
const shared = {};
let failures = 0;

/**
 * Return what the script of a part exports. Throws a Refusal if it cannot be loaded; the next call tries again.
 *
 * @param {number} index those before it are loaded, too
 * @returns {Promise<unknown>}
 */
export function loadPart(index) {
  loading[index] ??= load(index).catch(async (error) => {
    loading[index] = null;
    throw error instanceof Refusal ? error : await whyFailed(index);
  });
  return loading[index];
}

/**
 * Load a part before it is needed; if that fails, needing it reports so.
 *
 * @param {number} index
 */
export async function prefetchPart(index) {
  try {
    await loadPart(index);
  } catch (error) {
    asRefusal(error);
  }
}

/** @param {number} index */
async function load(index) {
  const [script, style, words] = files.slice(index * FILES);
  const attempt = failures > 0 ? `?${failures}` : ""; // browsers remember a module that failed by its address
  const late = new Promise((_, reject) => {
    setTimeout(reject, TIMEOUT);
  });
  const [, { default: run }, more] = await Promise.race([
    Promise.all([
      index > 0 && loadPart(index - 1),
      import(new URL(script + attempt, document.baseURI).href),
      loadTexts(words),
      loadStyle(style),
    ]),
    /** @type {Promise<never>} */ (late),
  ]);
  Object.assign(texts, more);
  const part = run(shared);
  Object.assign(shared, part.shared);
  return part.entry;
}

/**
 * @param {string} address
 * @returns {Promise<Record<string, string>>}
 */
async function loadTexts(address) {
  const response = await fetch(address);
  if (!response.ok) {
    throw new Error(response.statusText);
  }
  return response.json();
}

/**
 * Load a style sheet, with less weight than the host's own.
 *
 * @param {string} address
 */
function loadStyle(address) {
  return new Promise((resolve, reject) => {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = address;
    sheet.onload = resolve;
    sheet.onerror = () => {
      sheet.remove();
      reject();
    };
    document.querySelector("link[rel=stylesheet]")?.after(sheet);
  });
}

/**
 * Return why a part could not be loaded: after an update, the server no longer has the files of this page.
 *
 * @param {number} index
 */
async function whyFailed(index) {
  failures += 1;
  const response = await fetch(files[index * FILES], { method: "HEAD" }).catch(() => null);
  return response?.status === GONE
    ? new Refusal(GONE, { code: "page_outdated", message: t("page_outdated") })
    : new Refusal(0, {});
}
