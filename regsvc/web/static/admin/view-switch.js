// Shows one view at a time: the one that the address names.

import { asRefusal } from "../shared/api.js";
import { button, make, replaceContent } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import { notice } from "../shared/notice.js";
import { parseHash } from "./hash.js";
import { loadLater, prefetchLater } from "./later.js";
import { may } from "./permissions.js";
import { ViewContext } from "./view-context.js";
import { queueView } from "./views/queue.js";

/** @type {Array<Omit<View, "render">>} the views that are loaded later, in the order of the menu */
const LATER = [
  {
    id: "users",
    title: "view_users",
  },
  {
    id: "user",
    title: "view_user",
    isInMenu: false,
    menu: "users",
    heading: ({ name }) => name || t("view_user"),
  },
  {
    id: "bans",
    title: "view_bans",
  },
  {
    id: "invitations",
    title: "view_invitations",
    permission: "users.review",
  },
  {
    id: "audits",
    title: "view_audits",
    permission: "audit.read",
  },
  {
    id: "sync",
    title: "view_sync",
    permission: "sync.run",
  },
  {
    id: "mails",
    title: "view_mails",
    permission: "system.read",
  },
  {
    id: "server",
    title: "view_server",
    permission: "system.read",
  },
  {
    id: "doctor",
    title: "view_doctor",
    permission: "system.read",
  },
  {
    id: "team",
    title: "view_team",
  },
];

/** @type {View[]} in the order of the menu */
const VIEWS = [
  queueView,
  ...LATER.map((view) => ({
    ...view,
    render: async (/** @type {ViewContext} */ context, /** @type {Record<string, string>} */ query) => {
      const [later] = await Promise.all([loadLater(), context.loadRest()]); // events before data: none is missed
      return later.views[view.id].render(context, query);
    },
  })),
];

/** The views of the member of the team who is logged in. */
const views = () => VIEWS.filter(({ permission }) => permission === undefined || may(permission));

/** The views in the menu. */
export const menu = () => views().filter(({ isInMenu = true }) => isInMenu);

export class ViewSwitch {
  /** @type {ViewContext | null} of the view that is shown */
  current = null;
  hasFailed = false; // whether it could not be loaded

  /** @param {Shell} shell */
  constructor(shell) {
    this.shell = shell;
    if (LATER.some(({ id }) => id === parseHash(location.hash).id)) {
      prefetchLater(); // beside what the page loads before any view
    }
  }

  /**
   * Show the view that the address names.
   *
   * @param {{ keepsNotice?: boolean, takesFocus?: boolean }} options `takesFocus`: whether the focus moves to it
   */
  async show({ keepsNotice = false, takesFocus = true } = {}) {
    const { id, query } = parseHash(location.hash);
    const fallback = this.current === null || id === "" ? VIEWS[0] : null;
    const view = views().find((candidate) => candidate.id === id) ?? fallback;
    if (view === null) {
      return; // of the skip link
    }
    this.current?.end();
    this.hasFailed = false;
    const { navBar, container } = this.shell;
    const context = new ViewContext(this.shell, view);
    this.current = context;
    navBar.setCurrent(view.menu ?? view.id);
    const heading = view.heading?.(query) ?? t(view.title);
    navBar.setHeading(heading);
    const title = make("h2", { tabindex: "-1" }, heading);
    replaceContent(container, title, make("p", { class: "quiet-text" }, t("loading")));
    const elements = await this.render(view, context, query);
    if (context.isOver) {
      return;
    }
    replaceContent(container, title, elements);
    if (!keepsNotice) {
      notice.clear();
    }
    if (takesFocus) {
      title.focus({ preventScroll: keepsNotice });
    }
  }

  /**
   * Return the elements of the view, or the reason why it cannot be loaded and a button to try again.
   *
   * @param {View} view
   * @param {ViewContext} context
   * @param {Record<string, string>} query
   * @returns {Promise<Child>}
   */
  async render(view, context, query) {
    try {
      return await view.render(context, query);
    } catch (error) {
      const { message, code } = asRefusal(error);
      this.hasFailed ||= !context.isOver; // of another view it says nothing
      const isOutdated = code === "page_outdated";
      return [
        make("p", { class: "notice", "data-kind": "bad", role: "alert" }, message),
        button(t(isOutdated ? "reload" : "try_again"), () => (isOutdated ? location.reload() : this.show()), ""),
      ];
    }
  }

  /** End the view that is shown: the operator is logged out. */
  end() {
    this.current?.end();
    this.current = null;
  }
}
