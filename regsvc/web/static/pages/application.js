// An application: how far it is, and what the applicant may still change. The address of the page is the way in: the
// token behind the "#" opens this application alone, so it stays there, to be kept and reloaded.

import { answersSection } from "../application/answers.js";
import { emailSection } from "../application/email.js";
import { progress } from "../application/progress.js";
import { questionsSection } from "../application/questions.js";
import { beginAgain } from "../register/draft.js";
import { Api, asRefusal } from "../shared/api.js";
import { config, linkContact } from "../shared/config.js";
import { copyable } from "../shared/copyable.js";
import { byId, icon, link, make, replaceContent } from "../shared/dom.js";
import { EventStream } from "../shared/event-stream.js";
import { formatTime, language, t } from "../shared/i18n.js";
import { joinHelp } from "../shared/join-help.js";
import { notice } from "../shared/notice.js";
import { startPage } from "../shared/page.js";
import { recallAnswer } from "../shared/recall.js";
import { ownWhy } from "../shared/why.js";

const NOT_FOUND = "application_not_found";
const CONFETTI = 20;
const MINUTE = 60_000; // milliseconds
const WELCOMED = "companion.welcomed"; // the player who was welcomed in this tab

/** @type {Record<string, string>} how the headline looks; that of a decision is told in a panel of its own below */
const KINDS = {
  pending: "good",
  asked: "wait",
  approved: "spoken",
  rejected: "spoken",
  banned: "bad",
  ended: "bad",
};

const CROSS = "M10 10 22 22M22 10 10 22";

/** @type {Record<string, [string, string]>} the icon of the tab once there is a decision: its colour and its stroke */
const MARKS = {
  approved: ["#1e7d45", "M9 17l5 5 9-12"],
  rejected: ["#5c6670", CROSS],
  banned: ["#5c6670", CROSS],
};

const tabIcon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
const hostIcon = tabIcon.href;

const api = new Api();
const stream = new EventStream(
  api,
  { onEvent: (_name, data) => data && show(data), onState },
  `api/application/events?language=${language}`,
);
const asked = make("div", {});
const overview = make("div", {});
const sections = make("div", { class: "sections" });
const liveness = make("p", { class: "quiet-text" });
/** @type {Application | null} what is shown */
let shown = null;
let current = Date.now(); // when what is shown was true
/** @type {"live" | "lost" | "off"} */
let connection = "off";

/** @param {HTMLElement} content */
async function render(content) {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  stream.stop();
  shown = null;
  if (!token) {
    showNothing(t("link_incomplete"));
    return;
  }
  api.headers = { "X-Application-Token": token };
  try {
    const corrected = await recallAnswer(api, "application/email"); // it has ended the token
    if (corrected) {
      await onNewToken(corrected.applicationToken);
      notice.announce(t("email_corrected"));
      return;
    }
    const application = await api.get("application");
    replaceContent(content, asked, overview, sections, liveness);
    show(application);
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal.code !== NOT_FOUND) {
      throw refusal;
    }
    showNothing(refusal.message);
    return;
  }
  stream.start();
}

/**
 * Show the application as it is now. What the applicant is typing stays, unless it can no longer be sent.
 *
 * @param {Application} application
 */
function show(application) {
  const before = shown;
  shown = application;
  showTime(Date.now());
  const state = stateOf(application);
  if (before === null || stateOf(before) !== state) {
    const isTold = before === null && KINDS[state] === "spoken"; // by the panel, which is read with the page
    notice.show(isTold ? "" : headline(application), KINDS[state]);
    document.title = `${t(state === "ended" ? "membership_over" : `status_${state}`)} – ${config.webServerPrefix}`;
    showTabIcon(state);
  }
  if (overviewState(before) !== overviewState(application)) {
    replaceContent(overview, renderOverview(application));
  }
  if (
    JSON.stringify(before?.questions) !== JSON.stringify(application.questions) ||
    before?.waitingFor !== application.waitingFor
  ) {
    const parts = { api, application, isOpen: false, show, onNewToken };
    replaceContent(asked, questionsSection(parts));
  }
  if (sectionsState(before) !== sectionsState(application)) {
    const isOpen = sections.querySelector("details[open]") !== null;
    const parts = { api, application, isOpen, show, onNewToken };
    replaceContent(sections, answersSection(parts), emailSection(parts));
  }
}

/**
 * Show the decision in the tab, too, for those who wait in another one.
 *
 * @param {string} state
 */
function showTabIcon(state) {
  if (MARKS[state] === undefined) {
    tabIcon.href = hostIcon;
    return;
  }
  const [colour, stroke] = MARKS[state];
  const square = `<rect width='32' height='32' rx='7' fill='${colour}'/>`;
  const mark = `<path d='${stroke}' fill='none' stroke='#fff' stroke-width='4' stroke-linecap='round'/>`;
  const picture = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>${square}${mark}</svg>`;
  tabIcon.href = `data:image/svg+xml,${encodeURIComponent(picture)}`;
}

/**
 * Show when what is shown was true.
 *
 * @param {number} time
 */
function showTime(time) {
  current = time;
  const words = t(connection === "lost" ? "live_lost" : "live", { time: formatTime(current) });
  liveness.textContent = connection === "off" ? "" : words;
}

/** @param {Application | null} application */
function overviewState(application) {
  return JSON.stringify({ ...application, answers: null });
}

/** @param {Application | null} application */
function sectionsState(application) {
  return JSON.stringify([
    application?.answers,
    application?.canEditAnswers,
    application?.canCorrectEmail,
    application?.email,
  ]);
}

/** @param {Application} application */
function headline(application) {
  const { username, answerBy } = application;
  return t(`headline_${stateOf(application)}`, { username, date: formatTime(answerBy) });
}

/**
 * Return the status, "asked" while the application waits for its applicant, or "ended" once the membership has.
 *
 * @param {Application} application
 */
function stateOf({ status, answerBy, hasEnded }) {
  return hasEnded ? "ended" : answerBy === null ? status : "asked";
}

/** @param {Application} application */
function renderOverview(application) {
  const { status, hasPassword, email } = application;
  const isApproved = stateOf(application) === "approved";
  const mayLackPassword = isApproved && !hasPassword && config.registration.password !== "off";
  const lacksPassword = mayLackPassword && config.authme.enabled;
  const isMailed = config.registration.passwordReset === "mail";
  const place = make("p", {
    class: "notice",
    "data-kind": "info",
    "aria-live": "polite",
  });
  if (application.hasEnded) {
    return [
      ownWhy(api, "application/why", place),
      make("p", {}, t("ended_next")),
      make("p", {}, link("account", t("to_account"), { class: "button" })),
    ];
  }
  return [
    isApproved && welcome(application.username),
    status === "rejected" && rejection(application),
    progress(application, config),
    lacksPassword &&
      make("p", { class: "lines" }, linkContact(t(isMailed ? "password_mailed" : "password_by_operator", { email }))),
    mayLackPassword &&
      isMailed &&
      make("p", {}, link("forgot-password", t(lacksPassword ? "password_mail_again" : "password_for_web"))),
    isApproved && !lacksPassword && ownWhy(api, "application/why", place),
    isApproved &&
      joinHelp(api, config, { username: application.username, isAddressShown: config.gameAddress !== null }),
  ];
}

/**
 * Make what everybody waited for: the player is in, with confetti the first time.
 *
 * @param {string} username
 */
function welcome(username) {
  const isFirst = sessionStorage.getItem(WELCOMED) !== username;
  sessionStorage.setItem(WELCOMED, username);
  const pieces = Array.from({ length: CONFETTI }, () => make("i"));
  return make(
    "section",
    { class: "welcome" },
    isFirst && make("div", { class: "confetti", "aria-hidden": "true" }, pieces),
    make("p", {}, t("welcome")),
    make("h2", { dir: "auto" }, username),
    config.gameAddress !== null && copyable(config.gameAddress),
  );
}

/**
 * Tell kindly of a rejection: why, and how to try again.
 *
 * @param {Application} application
 */
function rejection(application) {
  const { reason, reapplyAt } = application;
  const isOpen = (reapplyAt ?? 0) <= Date.now();
  return make(
    "section",
    { class: "panel" },
    make("h2", {}, headline(application)),
    reason && make("blockquote", { class: "lines" }, linkContact(reason)),
    make("p", {}, isOpen ? t("again_now") : t("again_from", { date: formatTime(reapplyAt) })),
    isOpen && applyAgain(),
  );
}

/** Make the link to a new application of the same player, which is filled in with this one. */
function applyAgain() {
  const onclick = () => beginAgain(api.headers["X-Application-Token"]);
  return make("p", {}, link("register", t("apply_again"), { class: "button", onclick }));
}

/**
 * Follow the application under another token: its address was corrected, which ended the old one.
 *
 * @param {string} token
 */
function onNewToken(token) {
  history.replaceState(null, "", `#token=${token}`);
  return startPage(render);
}

/** @param {string} message why there is no application to show */
function showNothing(message) {
  stream.stop();
  notice.announce(message, "bad");
  replaceContent(
    byId("inside"),
    make("p", { class: "empty" }, icon("i-compass")),
    make(
      "p",
      { class: "buttons" },
      link("register", t("apply"), { class: "button" }),
      link("account", t("to_account"), { class: "button quiet" }),
    ),
  );
}

/** @param {{ is: "live" | "lost" | "off", error?: any }} state */
function onState({ is, error }) {
  if (error?.code === NOT_FOUND) {
    const isAsked = api.isUnanswered("application/email"); // which may have ended the token
    isAsked ? startPage(render) : showNothing(error.message);
    return;
  }
  connection = is;
  showTime(is === "live" ? Date.now() : current);
  if (error?.status) {
    api.get("application").then(show, () => {}); // refused, perhaps as one of too many: it is asked from time to time
  }
}

setInterval(() => connection === "live" && showTime(Date.now()), MINUTE); // a stream that fell silent would be lost

// Opening another link in the same tab changes what is behind the "#", and loads nothing.
addEventListener("hashchange", () => startPage(render));

startPage(render);
