import assert from "node:assert/strict";
import { test } from "node:test";

import { findCode } from "../../regsvc/web/static/register/code.js";
import { Draft } from "../../regsvc/web/static/register/draft.js";

test("a code is found in what was pasted with it", () => {
  assert.equal(findCode("123456", 6), "123456");
  assert.equal(findCode("Your code: 123456.", 6), "123456");
  assert.equal(findCode("  123 456\t", 6), "123456");
  assert.equal(findCode("123-456", 6), "123456");
  assert.equal(findCode("order 12345, code 654321", 6), "654321");
  assert.equal(findCode("1234", 4), "1234");
});

test("what has too few digits, or too many, is no code", () => {
  assert.equal(findCode("", 6), "");
  assert.equal(findCode("12345", 6), "");
  assert.equal(findCode("1234567", 6), "");
  assert.equal(findCode("12 34 5", 6), "");
});

test("a proof is of the address that it was given for", () => {
  const draft = new Draft();
  draft.update({ email: "alice@example.org", proof: "7.x.1", proofFor: "alice@example.org" });
  assert.equal(draft.isProven, true);
  draft.update({ email: "bob@example.org" });
  assert.equal(draft.isProven, false);
});
