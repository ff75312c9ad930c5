// What the signed-in member of the team may do. Pages show only that; the API refuses the rest.

/** @type {Set<string>} */
let permissions = new Set();

/** @param {string[]} names as GET /api/admin/verify tells them */
export function setPermissions(names) {
  permissions = new Set(names);
}

/** @param {string} permission */
export function may(permission) {
  return permissions.has(permission);
}

/** @type {Record<DecisionName, string>} */
const FOR_DECISIONS = {
  approve: "users.review",
  reject: "users.review",
  reopen: "users.review",
  ban: "users.ban",
  unban: "users.ban",
  delete: "users.manage",
};

/**
 * Return whether the member of the team may make a decision, about users of a status if one is given.
 *
 * @param {DecisionName} decision
 * @param {Status} [status]
 */
export function mayDecide(decision, status) {
  const endsPlay = decision === "reopen" && status === "approved"; // as a ban does
  return may(FOR_DECISIONS[decision]) && (!endsPlay || may("users.ban"));
}

/**
 * Return whether they may say that this password counts for who registered anew in the game.
 *
 * @param {PasswordChoice} choice
 */
export function mayChoose(choice) {
  return choice !== "take" || may("users.manage");
}
