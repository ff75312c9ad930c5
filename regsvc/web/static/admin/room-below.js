// The room that a page leaves at its end for what covers it there: the last rows can be scrolled to above that.

/**
 * Tell style sheets the height of an element at the end of the window, in pixels, 0 while it is hidden.
 *
 * @param {HTMLElement} element
 * @param {"--tray" | "--selection" | "--bulk"} property
 */
export function leaveRoom(element, property) {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const tell = () => sheet.replaceSync(`:root { ${property}: ${element.offsetHeight}px }`);
  new ResizeObserver(tell).observe(element, { box: "border-box" });
}
