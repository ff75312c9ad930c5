// A front end and a bot, typed by what openapi-typescript makes of the API's document: they are checked, not run.

import type { components, paths, webhooks } from "./companion";

type Posted<Path extends keyof paths> = paths[Path] extends {
  post: { requestBody?: { content: { "application/json": infer Body } } };
}
  ? Body
  : never;
type Replied<Path extends keyof paths> = paths[Path] extends {
  post: { responses: infer Responses };
}
  ? {
      [Status in keyof Responses]: Responses[Status] extends { content: { "application/json": infer Body } }
        ? Body
        : never;
    }[keyof Responses]
  : never;

async function post<Path extends keyof paths>(path: Path, body: Posted<Path>, token = ""): Promise<Replied<Path>> {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  return response.json();
}

/** Returns what to tell Alice. */
export async function register(code: string): Promise<string> {
  const reply = await post("/api/register", { username: "Alice", email: "alice@example.org", code, password: "secret" });
  if (reply.success) {
    return `${reply.username}: ${reply.status}`;
  }
  const refusal: components["schemas"]["Refusal"] = reply;
  switch (refusal.code) {
    case "username_taken":
    case "invalid_code":
      return refusal.message;
    // @ts-expect-error a code that does not exist
    case "no_such_code":
      return "";
    default:
      return refusal.code;
  }
}

/** Returns the names that are approved by now. */
export async function approve(names: string[], token: string): Promise<string[]> {
  const reply = await post("/api/admin/user/approve", { usernames: names }, token);
  if (!reply.success) {
    return reply.code === "wrong_status" ? names : [];
  }
  if (reply.kind === "many") {
    return reply.results.filter(({ success }) => success).map(({ username }) => username);
  }
  const { username } = reply;
  return [username];
}

/** Returns whom a call of the webhook is about. */
export function greet(call: webhooks["approved"]["post"]["requestBody"]["content"]["application/json"]): string {
  return `${call.companion.username} may play on ${call.companion.server}`;
}

// @ts-expect-error the name is needed
post("/api/admin/user/note", { text: "Knows Bob." });
