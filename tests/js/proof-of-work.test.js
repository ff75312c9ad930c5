import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";

import { findNumber } from "../../regsvc/web/static/workers/proof-of-work.js";

const MAX_NUMBER = 2000;

/**
 * @param {Buffer} salt
 * @param {number} number
 */
function challenge(salt, number) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  const hash = createHash("sha256").update(salt).update(bytes).digest("hex");
  return { salt: salt.toString("hex"), hash, maxNumber: MAX_NUMBER };
}

test("the number is found whose hash another program has made", () => {
  for (const number of [0, 1, 255, 256, MAX_NUMBER]) {
    assert.equal(findNumber(challenge(randomBytes(16), number)), number);
  }
  for (let round = 0; round < 50; round++) {
    assert.equal(findNumber(challenge(randomBytes(16), 40 * round)), 40 * round);
  }
  assert.equal(findNumber(challenge(Buffer.alloc(16, 0xff), 7)), 7);
});

test("there may be none", () => {
  assert.equal(findNumber(challenge(randomBytes(16), MAX_NUMBER + 1)), null);
});
