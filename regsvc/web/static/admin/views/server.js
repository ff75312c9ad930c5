// What cannot wait for a shell: whether registration is open, and the announcement.

import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { formatTime, language, languageName, t } from "../../shared/i18n.js";
import { badge } from "../badges.js";
import { may } from "../permissions.js";
import { sendChange } from "../send-change.js";

/** @typedef {GetReply<"admin/server">} Server */

/** @type {LaterView} */
export const serverView = {
  async render(context) {
    const page = new ServerPage(context);
    await page.load();
    return page.elements;
  },
};

class ServerPage {
  /** @param {import("../view-context.js").ViewContext} context */
  constructor(context) {
    this.context = context;
    this.registration = make("div", {});
    this.announcement = make("div", {});
    this.elements = [
      make("section", { class: "panel" }, make("h3", {}, t("registration")), this.registration),
      make("section", { class: "panel" }, make("h3", {}, t("announcement")), this.announcement),
    ];
  }

  /** Throws a Refusal. */
  async load() {
    const server = await this.context.api.get("admin/server");
    this.showRegistration(server);
    replaceContent(this.announcement, this.renderAnnouncement(server));
  }

  /** @param {Server} server */
  showRegistration(server) {
    replaceContent(this.registration, this.renderRegistration(server));
  }

  /** @param {Server} server */
  renderRegistration({ isOpen, mayOpen, opensAt, isPaused, registrationChanged }) {
    const state = badge(t(isOpen ? "registration_is_open" : "registration_is_closed"), isOpen ? "good" : "bad");
    const by = !isPaused && registrationChanged && t("done_by", words(registrationChanged));
    const opens = isPaused
      ? t("registration_paused")
      : opensAt !== null && t("registration_opens", { at: formatTime(opensAt) });
    const parts = [make("p", {}, state, " ", opens, " ", by)];
    if (!may("settings.write")) {
      return parts;
    }
    if (!mayOpen) {
      return [...parts, make("p", {}, t("registration_by_config"))];
    }
    if (!isOpen) {
      return [...parts, button(t("registration_open"), () => this.setOpen(true, null))];
    }
    const id = uniqueId("until");
    const until = make("input", { id, type: "datetime-local" });
    const close = () => this.setOpen(false, until.value ? new Date(until.value).getTime() : null);
    const field = make("div", { class: "field" }, make("label", { for: id }, t("registration_until")), until);
    return [...parts, field, button(t("registration_close"), close)];
  }

  /** @param {Server} server */
  renderAnnouncement({ announcements, configuredAnnouncement, announcementChanged, languages }) {
    const texts = languages.map((language) => {
      const text = make("textarea", { rows: "2", maxlength: "2000", disabled: !may("settings.write") });
      text.value = announcements[language] ?? "";
      text.dataset.language = language;
      text.lang = language;
      text.setAttribute("aria-label", `${t("announcement")}: ${languageName(language)}`);
      return text;
    });
    const save = () => this.saveAnnouncement(texts);
    return [
      announcementChanged && make("p", { class: "quiet-text" }, t("done_by", words(announcementChanged))),
      configuredAnnouncement &&
        make("p", { class: "quiet-text" }, t("announcement_by_config"), " ", configuredAnnouncement),
      languages.length > 1 && languageTabs(texts),
      make("div", { class: "field" }, texts),
      may("settings.write") && button(t("announcement_save"), save),
    ];
  }

  /**
   * @param {boolean} open
   * @param {number | null} opensAt
   */
  async setOpen(open, opensAt) {
    const change = () => this.context.api.post("admin/server/registration", { open, opensAt });
    // not the announcement, which may be half typed
    await sendChange(change, async () => this.showRegistration(await this.context.api.get("admin/server")));
  }

  /** @param {HTMLTextAreaElement[]} fields */
  async saveAnnouncement(fields) {
    const texts = Object.fromEntries(fields.map(({ dataset, value }) => [dataset.language ?? "", value]));
    await sendChange(
      () => this.context.api.post("admin/server/announcement", { texts }),
      () => this.load(),
    );
  }
}

/**
 * Make a choice of the language whose text is shown. Those that have a text are marked.
 *
 * @param {HTMLTextAreaElement[]} texts of which one is shown
 */
function languageTabs(texts) {
  const name = uniqueId("tab");
  const first = texts.find(({ lang }) => lang === language) ?? texts[0];
  const tabs = texts.map((text) => {
    const show = () => texts.forEach((other) => (other.hidden = other !== text));
    const tab = make("input", { type: "radio", name, onchange: show });
    const mark = make("span", {});
    const tellWhetherEmpty = () => (mark.textContent = text.value.trim() ? "✓" : "");
    tab.checked = text === first;
    text.hidden = text !== first;
    text.addEventListener("input", tellWhetherEmpty);
    tellWhetherEmpty();
    return make("label", {}, tab, make("span", { lang: text.lang }, languageName(text.lang)), mark);
  });
  return make("fieldset", { class: "tabs" }, make("legend", { class: "visually-hidden" }, t("language")), tabs);
}

/** @param {{ by: string, at: number }} change */
function words({ by, at }) {
  return { operator: by, at: formatTime(at) };
}
