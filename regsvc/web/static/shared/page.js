// How every page begins: the switch of languages at its foot, and its inside drawn, with another try if that fails.

import { Refusal } from "./api.js";
import { button, fillWith, make } from "./dom.js";
import { notice } from "./notice.js";
import { language, languages, nameOf, switchLanguage, word } from "./i18n.js";

const inside = document.getElementById("inside");

/** Draw the page: `draw(inside)` fills the element. What cannot be asked for is told, with a button to try again. */
export async function start(draw) {
  drawFoot();
  await attempt(draw);
}

async function attempt(draw) {
  fillWith(inside);
  notice.say(word("loading"));
  try {
    await draw(inside);
    notice.forget(word("loading"));
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) {
      throw refusal;
    }
    if (refusal.isLoggedOut) {
      return; // the page has turned to its login
    }
    fillWith(inside, button(word("try_again"), () => attempt(draw), ""));
    notice.refuse(refusal);
  }
}

/** Another part of the page: its heading is gone to, so that everybody notices. `null`: it has none. */
export function turnTo(heading, ...children) {
  const title = heading === null ? null : make("h2", { tabindex: "-1" }, heading);
  fillWith(inside, title, ...children);
  title?.focus();
}

function drawFoot() {
  if (languages.length < 2) {
    return;
  }
  const choices = languages.map((tag) =>
    make(
      "button",
      { type: "button", class: "plain", lang: tag, "aria-current": tag === language ? "true" : null, onclick: () => switchLanguage(tag) },
      nameOf(tag),
    ),
  );
  const label = word("language");
  document.getElementById("foot").append(make("div", { role: "group", "aria-label": label }, choices));
}
