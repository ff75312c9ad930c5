// Elements of the page. What they are given is text and never markup, so nothing can be injected through it.

/**
 * An element: `make("p", { class: "hint" }, "Hello ", make("b", {}, name))`.
 *
 * Attributes: true sets it empty; false, null and undefined leave it out; a function under `onclick` and the like
 * listens. Children: text, elements, lists of them; null and false are left out.
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put these in the place of everything that is in the element. */
export function fillWith(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

/** A link within our pages; `href` relative to them, as a proxy may show us below a path of its own. */
export function link(href, text, attributes = {}) {
  return make("a", { href, ...attributes }, text);
}

/** A button that does something; `kind`: "" (the main one), "quiet" or "danger". */
export function button(text, onclick, kind = "quiet") {
  return make("button", { type: "button", class: kind || null, onclick }, text);
}

let lastId = 0;

/** An id nobody else has on this page; labels and descriptions point at it. */
export function freshId(name) {
  lastId += 1;
  return `${name}-${lastId}`;
}
