// The dialog that takes back what one member of the team, or one API token, decided: first the plan, then a button.

import { button, make, replaceContent, uniqueId } from "../shared/dom.js";
import { Field, Form } from "../shared/form.js";
import { t } from "../shared/i18n.js";
import { actionName } from "./audit-entries.js";
import { labelFor } from "./phrases.js";
import { sendChange } from "./send-change.js";

/** @typedef {GetReply<"admin/audits">["audits"][number]} Audit */
/** @typedef {PostReply<"admin/undo">} UndoReply */

/**
 * Ask what to undo, show the plan, and undo it once that is confirmed; then `reload`.
 *
 * @param {import("./view-context.js").ViewContext} context
 * @param {string} operator the actor whose entries are shown, or ""
 * @param {() => unknown} reload
 */
export function askUndo({ api }, operator, reload) {
  const title = uniqueId("title");
  const of = new Field("of", t("undo_of"), {
    value: operator,
    hint: t("undo_of_hint"),
    maxlength: 255,
    isTrimmed: true,
  });
  const since = new Field("since", t("undo_since"), { type: "datetime-local" });
  const until = new Field("until", t("undo_until"), { type: "datetime-local", isOptional: true });
  const planned = make("div", { role: "status" });
  const span = () => ({
    of: of.value,
    since: new Date(since.value).getTime(),
    until: until.value ? new Date(until.value).getTime() : null,
  });
  const form = new Form({
    fields: [of, since, until],
    submit: t("undo_plan"),
    others: [planned],
    send: async () => {
      const asked = span();
      const reply = await api.post("admin/undo", { ...asked, plan: true });
      const undo = async () => {
        dialog.close();
        await sendChange(() => api.post("admin/undo", asked), reload);
      };
      replaceContent(
        planned,
        renderPlan(reply),
        (reply.undone > 0 || Object.keys(reply.ended).length > 0) && button(t("undo_now"), undo, "danger"),
      );
    },
    onRefusal: ({ message }) => {
      replaceContent(planned, make("p", { class: "error" }, message)); // a notice would be behind the dialog
      return true;
    },
  });
  form.element.addEventListener("input", () => replaceContent(planned));
  form.element.append(
    make(
      "div",
      { class: "buttons" },
      form.submit,
      button(t("cancel"), () => dialog.close(), "quiet"),
    ),
  );
  /** @type {HTMLDialogElement} */
  const dialog = make(
    "dialog",
    { class: "decision", "aria-labelledby": title },
    make("h2", { id: title }, t("undo_decisions")),
    form.element,
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {UndoReply} reply */
function renderPlan({ message = "", kept, users, ended, stays, invited, invitedCount: count }) {
  const lines = users.map(({ username, statusBefore, status, roleBefore, role, link, kept: why, keptBy }) => {
    const changes = [
      status && `${labelFor("status", statusBefore ?? "")} → ${labelFor("status", status)}`,
      roleBefore !== role && `${t("role")}: ${role ?? "–"}`,
      link && t(`undo_link_${link}`),
      why && t(`undo_kept_${why}`, { name: keptBy ?? "" }),
    ];
    return make("li", {}, make("b", {}, username), ` ${changes.filter(Boolean).join(" · ")}`);
  });
  return [
    make("p", {}, message),
    kept > 0 && make("p", {}, t("undo_kept", { count: kept })),
    renderCounts("undo_ended", ended, (kind) => labelFor("fact", kind)),
    renderCounts("undo_stays", stays, actionName),
    count > 0 && make("p", {}, t("undo_invited", { count, names: invited.join(", ") })),
    make("ul", { class: "lines" }, lines),
  ];
}

/**
 * @param {string} key
 * @param {Record<string, number>} counts
 * @param {(name: string) => string} nameOf
 */
function renderCounts(key, counts, nameOf) {
  const what = Object.entries(counts).map(([name, count]) => `${nameOf(name)}: ${count}`);
  return what.length > 0 && make("p", {}, t(key, { what: what.join(" · ") }));
}
