// How long approved users may play: what is told of it, and how the team changes it.

import { config } from "../../shared/config.js";
import { button, make, uniqueId } from "../../shared/dom.js";
import { formatTime, t } from "../../shared/i18n.js";
import { notice } from "../../shared/notice.js";
import { badge } from "../badges.js";
import { may } from "../permissions.js";
import { countNames, formatDuration, formatNumber, labelFor } from "../phrases.js";
import { MembershipEndField } from "./end-field.js";
import { wordLength } from "./term.js";
import { applies, statusesOf } from "./transitions.js";

/** @typedef {import("../view-context.js").ViewContext} ViewContext */
/** @typedef {Partial<import("../pending/pending-decision.js").DecisionFields>} Details */

const SECOND = 1000; // milliseconds

/** How long one key renews a membership for. */
const usualLength = config.memberFor ?? "30 days";

/**
 * Render what has to be known of a membership: that it ends soon or has ended, and that its user asked to stay.
 *
 * @param {Pick<ListedUser, "membership">} user
 */
export function membershipBadges({ membership }) {
  if (!membership) {
    return [];
  }
  const { state, endsAt, stayAskedAt } = membership;
  const left = Math.max(0, (endsAt ?? 0) - Date.now()) / SECOND;
  return [
    state === "ending" && [badge(t("member_ends_in", { time: formatDuration(left) }), "wait"), " "],
    state === "ended" && [badge(t("member_over"), "bad"), " "],
    stayAskedAt !== null && [badge(t("member_asked"), "wait"), " "],
  ];
}

/**
 * Say how long an approved user may play, or since when no longer, and why; null for others.
 *
 * @param {ListedUser} user
 */
export function describeMembership({ membership }) {
  if (!membership) {
    return null;
  }
  const { state, because, endsAt, endedAt, stayAskedAt } = membership;
  const about =
    state === "ended"
      ? t(`member_ended_${because}`, { since: formatTime(endedAt) })
      : endsAt === null
        ? t("member_for_ever")
        : t(`member_until_${because}`, { until: formatTime(endsAt) });
  return [about, stayAskedAt !== null && [make("br", {}), t("member_asked_at", { at: formatTime(stayAskedAt) })]];
}

/**
 * Return whether the team may change how long a user plays; its own memberships have no end.
 *
 * @param {ListedUser} user
 */
const hasMembership = ({ membership, isOperator, role }) =>
  Boolean(membership) && !isOperator && role === null && may("users.review");

/**
 * Return whether one key renews a user's membership: it has an end, or has ended.
 *
 * @param {ListedUser} user
 */
const isRenewable = (user) =>
  hasMembership(user) && (user.membership?.state === "ended" || user.membership?.endsAt !== null);

/** @param {ListedUser} user */
const hasAsked = (user) => hasMembership(user) && user.membership?.stayAskedAt !== null;

/**
 * Change the memberships of those whom it fits, as `ask` says. It is sent in ten seconds, and can be undone until then.
 *
 * @param {ViewContext} context
 * @param {ListedUser[]} users
 * @param {(user: ListedUser) => boolean} fits
 * @param {(fitting: ListedUser[]) => Promise<Details | null>} ask
 */
async function change(context, users, fits, ask) {
  const fitting = users.filter(fits);
  if (users.length === 0) {
    notice.show(t("choose_first"));
    return;
  }
  if (fitting.length === 0) {
    notice.show(t(fits === isRenewable ? "fits_nobody_renew" : "fits_nobody_membership"), "bad");
    return;
  }
  const usernames = fitting.map(({ username }) => username);
  const details = await ask(fitting);
  if (details === null || context.isOver) {
    return;
  }
  context.decide({ decision: "membership", usernames, shown: statusesOf(fitting), ...details });
  if (fitting.length < users.length) {
    notice.show(t("some_left_out", { count: users.length - fitting.length }));
  }
}

/**
 * What the team does with the memberships of those whom `targets` returns.
 *
 * @param {ViewContext} context
 * @param {() => ListedUser[]} targets
 */
export function membershipActions(context, targets) {
  return {
    set: () => change(context, targets(), hasMembership, askTerm),
    renew: () => change(context, targets(), isRenewable, async () => ({ for: usualLength })),
    decline: () => change(context, targets(), hasAsked, async () => ({ decline: true })),
    approveFor: () => approveFor(context, targets()),
  };
}

/** @typedef {ReturnType<typeof membershipActions>} MembershipActions */

/**
 * Approve for another time than the usual one, perhaps with a message.
 *
 * @param {ViewContext} context
 * @param {ListedUser[]} users
 */
async function approveFor(context, users) {
  const fitting = users.filter(isApprovedAnew);
  const usernames = fitting.map(({ username }) => username);
  await context.askAndDecide("approve", usernames, { shown: statusesOf(fitting), isForTerm: true });
}

/** @param {ListedUser} user */
const isApprovedAnew = (user) => user.status !== "approved" && applies("approve", user);

/**
 * @param {MembershipActions} actions
 * @returns {Record<string, import("../keyboard.js").Binding>}
 */
export function membershipKeys({ set, renew }) {
  return may("users.review")
    ? { m: { label: "key_membership", action: set }, n: { label: "key_renew", action: renew } }
    : {};
}

/**
 * Return what can be done with memberships: with which, what the button says, and its key.
 *
 * @param {MembershipActions} actions
 */
function choices({ set, renew, decline, approveFor: approve }) {
  return [
    {
      key: "",
      fits: (/** @type {ListedUser} */ user) => config.memberFor !== undefined && isApprovedAnew(user),
      action: approve,
      text: t("approve_for"),
    },
    { key: "n", fits: isRenewable, action: renew, text: t("member_renew", { length: wordLength(usualLength) }) },
    { key: "", fits: hasAsked, action: decline, text: t("member_decline") },
    { key: "m", fits: hasMembership, action: set, text: t("opens", { what: t("membership") }) },
  ];
}

/**
 * Make the buttons on the page of a user.
 *
 * @param {MembershipActions} actions
 * @param {ListedUser} user
 */
export function membershipButtons(actions, user) {
  return choices(actions)
    .filter(({ fits }) => fits(user))
    .map(({ key, action, text }) =>
      make(
        "button",
        { type: "button", class: key === "n" && user.membership?.state === "ended" ? null : "quiet", onclick: action },
        text,
        key && make("kbd", { "aria-hidden": "true" }, key),
      ),
    );
}

/**
 * Make the buttons for the users selected in a table: those that apply, each with the number of users.
 *
 * @param {ViewContext} context
 * @param {import("../table/table.js").Table<ListedUser>} table
 * @param {MembershipActions} actions
 */
export function membershipSelectionButtons(context, table, actions) {
  const all = choices(actions).map((choice) => ({ ...choice, element: button("", choice.action, "quiet") }));
  context.effect(() => {
    const users = table.selected;
    for (const { element, fits, text } of all) {
      const count = users.filter(fits).length;
      element.hidden = count === 0;
      element.textContent = t("do_for_some", { what: text, count: formatNumber(count) });
    }
  });
  return all.map(({ element }) => element);
}

/** @returns {import("../table/filters.js").FilterField} */
export function membershipFilter() {
  const values = ["ending", "ended", "asked"].map((value) => ({ value, text: labelFor("membership", value) }));
  return {
    name: "membership",
    label: "membership",
    type: "select",
    options: [{ value: "", text: t("any") }, ...values],
  };
}

/**
 * Ask how long memberships last; resolves to null if the dialog was cancelled.
 *
 * @param {ListedUser[]} users
 * @returns {Promise<Details | null>}
 */
function askTerm(users) {
  const title = uniqueId("title");
  const [{ membership }, ...others] = users;
  const isOver = membership?.state === "ended" || membership?.because !== "date";
  const field = new MembershipEndField(others.length ? {} : { end: isOver ? null : (membership?.endsAt ?? null) });
  const silent = make("input", { type: "checkbox" });
  return new Promise((resolve) => {
    /** @type {Details | null} */
    let answer = null;
    const onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (field.validate()) {
        answer = { ...field.term, silent: silent.checked };
        dialog.close();
      }
    };
    const usernames = users.map(({ username }) => username);
    /** @type {HTMLDialogElement} */
    const dialog = make(
      "dialog",
      { class: "decision", "aria-labelledby": title },
      make("h2", { id: title }, t("will_membership", { names: countNames(usernames) })),
      others.length > 0 && make("p", { class: "who" }, usernames.join(t("between_names"))),
      make(
        "form",
        { novalidate: true, onsubmit },
        field.element,
        make("label", { class: "option" }, silent, make("span", {}, t("silent"))),
        make(
          "div",
          { class: "buttons" },
          make("button", {}, t("member_save")),
          button(t("cancel"), () => dialog.close(), "quiet"),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.length.focus();
  });
}
