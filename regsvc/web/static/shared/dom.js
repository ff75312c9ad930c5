// Elements of the page. Strings always become text and never markup, so nothing can be injected through them.

/**
 * Make an element: `make("p", { class: "hint" }, "Hello ", make("b", {}, name))`.
 *
 * Attributes: true sets an empty one; false, null and undefined leave it out; a function under `onclick` and the like
 * becomes a listener. Children: text, elements and lists of them; null, undefined and false are left out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...flatten(children).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/**
 * Replace everything in an element; falsy children are left out.
 *
 * @param {Element} element
 * @param {Child[]} children
 */
export function replaceContent(element, ...children) {
  element.replaceChildren(...flatten(children).filter(Boolean));
}

/**
 * Show a text that screen readers read when it changes, but not each time it is found to be the same.
 *
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/**
 * Return the element with this id, which the page's template always has.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * Make a link within our pages; `href` is relative, as a proxy may serve us below a path of its own. Where a host has a
 * front end in place of most of our pages, links to those lead to its home page.
 *
 * @param {string} href
 * @param {Child} text
 * @param {Attributes} attributes
 */
export function link(href, text, attributes = {}) {
  const isReplaced = "frontEnd" in document.body.dataset && href !== "forgot-password";
  return make("a", { href: isReplaced ? "./" : href, ...attributes }, text);
}

/**
 * Make a button; `kind`: "" (the main one), "quiet", "plain" or "danger".
 *
 * @param {string} text
 * @param {(event: Event) => unknown} onclick
 */
export function button(text, onclick, kind = "quiet") {
  return make("button", { type: "button", class: kind || null, onclick }, text);
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an icon, which stands beside a word or in something with a label; `name` is its id in `icons.svg`, written out
 * ("i-globe"): the page has the icons that its script names.
 *
 * @param {string} name
 */
export function icon(name) {
  const element = document.createElementNS(SVG, "svg");
  element.setAttribute("class", "icon");
  element.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${name}`);
  element.append(use);
  return element;
}

/**
 * Make a list of names and values; entries whose value is null, undefined or "" are left out.
 *
 * @param {Array<[string, Child]>} entries
 */
export function definitionList(entries) {
  const given = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const rows = given.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  return make("dl", {}, rows);
}

let lastId = 0;

/**
 * Return an id that is unique on this page; labels and descriptions refer to it.
 *
 * @param {string} name
 */
export function uniqueId(name) {
  lastId += 1;
  return `${name}-${lastId}`;
}

/**
 * @param {Child[]} children
 * @returns {any[]}
 */
function flatten(children) {
  return /** @type {any[]} */ (children).flat(Number.POSITIVE_INFINITY);
}
