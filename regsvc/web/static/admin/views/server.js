// What cannot wait for a shell: whether registration is open, and the announcement.

import { button, make, replaceContent, uniqueId } from "../../shared/dom.js";
import { formatTime, languageName, t } from "../../shared/i18n.js";
import { badge } from "../badges.js";
import { may } from "../permissions.js";
import { sendChange } from "../send-change.js";

/** @typedef {GetReply<"admin/server">} Server */

/** @type {View} */
export const serverView = {
  id: "server",
  title: "view_server",
  permission: "system.read",

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
      make("h3", {}, t("registration")),
      this.registration,
      make("h3", {}, t("announcement")),
      this.announcement,
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
  renderRegistration({ isOpen, mayOpen, opensAt, registrationChanged }) {
    const state = badge(t(isOpen ? "registration_is_open" : "registration_is_closed"), isOpen ? "good" : "bad");
    const by = registrationChanged && t("done_by", words(registrationChanged));
    const opens = opensAt !== null && t("registration_opens", { at: formatTime(opensAt) });
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
    const fields = languages.map((language) => {
      const id = uniqueId("text");
      const text = make("textarea", { id, rows: "3", maxlength: "2000", disabled: !may("settings.write") });
      text.value = announcements[language] ?? "";
      text.dataset.language = language;
      return make("div", { class: "field" }, make("label", { for: id, lang: language }, languageName(language)), text);
    });
    const save = () => this.saveAnnouncement(fields);
    return [
      announcementChanged && make("p", { class: "quiet-text" }, t("done_by", words(announcementChanged))),
      configuredAnnouncement &&
        make("p", { class: "quiet-text" }, t("announcement_by_config"), " ", configuredAnnouncement),
      fields,
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

  /** @param {HTMLElement[]} fields */
  async saveAnnouncement(fields) {
    /** @type {Record<string, string>} */
    const texts = {};
    for (const text of fields.flatMap((field) => [...field.querySelectorAll("textarea")])) {
      texts[text.dataset.language ?? ""] = text.value;
    }
    await sendChange(
      () => this.context.api.post("admin/server/announcement", { texts }),
      () => this.load(),
    );
  }
}

/** @param {{ by: string, at: number }} change */
function words({ by, at }) {
  return { operator: by, at: formatTime(at) };
}
