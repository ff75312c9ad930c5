import assert from "node:assert/strict";
import { test } from "node:test";

import { strengthOf } from "../../regsvc/web/static/shared/password-fields.js";

test("a password is as strong as its characters vary", () => {
  for (const weak of ["a", "sesame", "password", "12345678901234567890", "aaaaaaaaaaaaaaaaaaaa", "abababababababab"]) {
    assert.equal(strengthOf(weak), "password_weak", weak);
  }
  assert.equal(strengthOf("creeper-42"), "password_fair");
  assert.equal(strengthOf("three-quiet-creepers"), "password_strong");
  assert.equal(strengthOf("xK4!pQ9?wZ2b"), "password_strong");
});
