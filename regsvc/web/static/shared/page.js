// The start of every page: the language menu, and the content, with a retry button if it cannot load.

import { asRefusal } from "./api.js";
import { setCookie } from "./cookies.js";
import { button, byId, make, replaceContent } from "./dom.js";
import { language, languageName, languages, switchLanguage, t } from "./i18n.js";
import { notice } from "./notice.js";

const content = byId("inside");

/**
 * Render the page. What cannot be loaded is reported, with a button to try again.
 *
 * @param {(content: HTMLElement) => unknown} render fills the element, possibly asynchronously
 */
export async function startPage(render) {
  renderLanguages(document.querySelector("#language"));
  removeBrokenPictures();
  makeDismissible(document.querySelector(".announcement"));
  content.querySelector(".needs-script")?.remove();
  await renderOrRetry(render, content.querySelector(".drawn") !== null);
}

/**
 * @param {(content: HTMLElement) => unknown} render
 * @param {boolean} isDrawn whether the server has drawn what comes first
 */
async function renderOrRetry(render, isDrawn = false) {
  if (!isDrawn) {
    replaceContent(content);
    notice.show(t("loading"));
  }
  try {
    await render(content);
    notice.clearIf(t("loading"));
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal.isLoggedOut) {
      return; // the page shows its login
    }
    replaceContent(
      content,
      button(t("try_again"), () => renderOrRetry(render), ""),
    );
    notice.showRefusal(refusal);
  }
}

/**
 * Show another section of the page and move the focus to its heading, so that screen readers notice.
 *
 * @param {string | null} heading null: the section has none
 * @param {Child[]} children
 */
export function showSection(heading, ...children) {
  const title = heading === null ? null : make("h2", { tabindex: "-1" }, heading);
  replaceContent(content, title, ...children);
  title?.focus();
}

/**
 * Let the visitor dismiss the announcement; the server leaves it out until there is another.
 *
 * @param {HTMLElement | null} announcement
 */
function makeDismissible(announcement) {
  announcement?.querySelector("button")?.addEventListener("click", () => {
    setCookie("companion_announcement", announcement.dataset.id ?? "");
    announcement.remove();
    byId("main").focus();
  });
}

/** Remove the host's pictures that cannot be loaded; one that failed before we listened is asked for once more. */
function removeBrokenPictures() {
  for (const picture of document.images) {
    picture.onerror = () => picture.remove();
    if (picture.complete && picture.naturalWidth === 0) {
      picture.setAttribute("src", picture.src);
    }
  }
}

/**
 * Fill the menu of languages; a page that offers only one has none.
 *
 * @param {HTMLDetailsElement | null} menu
 */
function renderLanguages(menu) {
  if (menu === null || menu.children.length > 1) {
    return;
  }
  if (languages.length < 2) {
    menu.remove();
    return;
  }
  // Buttons: an arrow key changes a closed <select> in some browsers, and would reload the page (WCAG 3.2.2).
  const choices = languages.map((tag) => {
    const current = tag === language ? "true" : null;
    const choose = () => switchLanguage(tag);
    const attributes = { type: "button", class: "plain", lang: tag, "aria-current": current, onclick: choose };
    return make("button", attributes, languageName(tag));
  });
  const [summary] = menu.children;
  summary.append(make("span", { class: "spoken" }, t("language"), ": "), languageName(language));
  menu.append(make("div", { role: "group", "aria-label": t("language") }, choices));
  menu.onkeydown = ({ key }) => {
    if (key === "Escape") {
      menu.open = false;
      /** @type {HTMLElement} */ (summary).focus();
    }
  };
  addEventListener("click", ({ target }) => {
    menu.open &&= menu.contains(/** @type {Node} */ (target));
  });
}
