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

/** @param {DecisionName} decision */
export function mayDecide(decision) {
  return may(FOR_DECISIONS[decision]);
}
