// Types that the pages' scripts share, in their JSDoc.

import type { Rest } from "../../regsvc/web/static/admin/later.js";
import type { NavBar } from "../../regsvc/web/static/admin/nav-bar.js";
import type { PendingDecisions } from "../../regsvc/web/static/admin/pending/pending-decisions.js";
import type { ViewContext } from "../../regsvc/web/static/admin/view-context.js";
import type { Flow } from "../../regsvc/web/static/register/flow.js";
import type { Api } from "../../regsvc/web/static/shared/api.js";
import type { Form } from "../../regsvc/web/static/shared/form.js";
import type { Session } from "../../regsvc/web/static/shared/session.js";
import type * as api from "./api.d.ts";

declare global {
  type GetRoutes = api.GetRoutes;
  type PostRoutes = api.PostRoutes;
  type GetReply<Path extends keyof GetRoutes> = GetRoutes[Path]["reply"];
  type PostReply<Path extends keyof PostRoutes> = PostRoutes[Path]["reply"];
  type PostBody<Path extends keyof PostRoutes> = Omit<PostRoutes[Path]["body"], "language">;

  type Config = GetReply<"config">["config"];
  type OwnStatus = GetReply<"user/status">["data"];
  type Application = GetReply<"application">;
  type Question = GetReply<"questionnaire/config">["data"]["questions"][number];
  type ServerStatus = GetReply<"server/status">["data"];
  type ServerAnswer = NonNullable<ServerStatus["servers"]>[number] & { motd?: string | null };
  type JoinHelp = GetReply<"server/join">["data"];
  type Download = GetReply<"downloads">["resources"][number];
  type ListedUser = GetReply<"admin/users">["users"][number];
  type UserDetails = GetReply<"admin/user">["user"];
  type Audit = GetReply<"admin/audits">["audits"][number];
  type Mail = GetReply<"admin/mails">["mails"][number];
  type Checkup = GetReply<"admin/doctor">;
  type SyncReport = PostReply<"admin/sync">["report"];
  type DecisionOutcome = Extract<PostReply<"admin/user/approve">, { results: unknown }>["results"][number];

  type PasswordChoice = NonNullable<PostBody<"admin/user/approve">["passwordChoice"]>;

  type DecisionName = "approve" | "reject" | "reopen" | "ban" | "unban" | "delete";
  /** What waits before it is sent, so that it can be undone. */
  type PendingName = DecisionName | "membership";
  type Status = ListedUser["status"];

  /** What a refusal of the API may carry beside its message. */
  interface RefusalBody {
    message?: string;
    code?: string;
    field?: string;
    questionId?: number;
    remainingSeconds?: number;
    reapplyAt?: number;
    banExpiresAt?: number | null;
    captchaHelps?: boolean;
    fault?: string;
    score?: number;
    passScore?: number;
  }

  /** The page of the signed-in player, for its sections. */
  interface Account {
    api: Api;
    config: Config;
    session: Session;
    user: OwnStatus & { username: string };
    leave(text: string): void;
    refresh(): Promise<void>;
  }

  /** Renders the content of a section of the account. */
  type AccountSection = (account: Account, place: SectionPlace) => Child | Promise<Child>;

  /** Where a section of the account is: it may show something else, and itself again. */
  interface SectionPlace {
    show(...children: Child[]): void;
    /** Throws a Refusal. */
    renderAgain(): Promise<void>;
  }

  interface RenderedStep {
    form: Form;
    above?: Child;
    below?: Child;
    /** What has the focus at first; the heading otherwise. */
    focused?: HTMLElement | null;
  }

  /** A step of the registration; its heading is the text `step_<id>`. */
  interface Step {
    id: string;
    /** The fields of the request that this step fills in. */
    owns: string[];
    isRequired(config: Config): boolean;
    /** The text above the step; without it, `step_` and the id. */
    titleKey?(config: Config): string;
    /** What it was given, as names and values, for the summary at the last step. */
    given?(flow: Flow): string[][];
    /** Called before it is shown to be changed. */
    reopen?(draft: import("../../regsvc/web/static/register/draft.js").Draft): void;
    /** The form is made by `flow.form`. */
    render(flow: Flow): Promise<RenderedStep>;
  }

  /** What lasts while an operator is logged in. */
  interface Shell {
    api: Api;
    config: Config;
    operator: string;
    pending: PendingDecisions;
    /** What is loaded once the first view is shown. */
    rest: Rest | null;
    loadRest(): Promise<Rest>;
    navBar: NavBar;
    container: HTMLElement;
    /** Run when the operator is logged out. */
    cleanups: Array<() => void>;
  }

  /** A view of the admin page. */
  interface View {
    id: string;
    /** The key of its name. */
    title: string;
    isInMenu?: boolean;
    /** Which members of the team see it; all, if it is missing. */
    permission?: string;
    /** The id of the view in the menu that it belongs to, if it is not there itself. */
    menu?: string;
    /** A heading that is not its title. */
    heading?(query: Record<string, string>): string;
    render(context: ViewContext, query: Record<string, string>): Child | Promise<Child>;
  }

  /** A view that is loaded later. */
  type LaterView = Pick<View, "render">;

  /** A page of a list. */
  interface RowsPage<Row> {
    rows: Row[];
    pagination: Pagination;
    nextCursor?: string | null;
  }

  interface Pagination {
    totalCount: number | null;
    totalPages: number | null;
    hasNext: boolean;
  }

  type Query = Record<string, string | number | boolean | null | undefined>;
  type Child = Node | string | number | boolean | null | undefined | Child[];
  type Attributes = Record<
    string,
    string | number | boolean | null | undefined | ((event: any) => unknown)
  >;
}
