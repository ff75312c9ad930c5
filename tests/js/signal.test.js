import assert from "node:assert/strict";
import { test } from "node:test";

import { batch, effect, Signal, untracked } from "../../regsvc/web/static/shared/signal.js";

test("an effect runs at once and after each change", () => {
  const name = new Signal("Alice");
  const seen = [];
  effect(() => seen.push(name.value));
  name.value = "Bob";
  name.value = "Bob"; // no change
  assert.deepEqual(seen, ["Alice", "Bob"]);
});

test("an effect that has ended does not run again", () => {
  const name = new Signal("Alice");
  const seen = [];
  const end = effect(() => seen.push(name.value));
  end();
  name.value = "Bob";
  assert.deepEqual(seen, ["Alice"]);
});

test("an effect follows what it read last", () => {
  const isShort = new Signal(true);
  const name = new Signal("Alice");
  let runs = 0;
  effect(() => {
    runs += 1;
    return isShort.value ? "" : name.value;
  });
  name.value = "Bob"; // not read yet
  assert.equal(runs, 1);
  isShort.value = false;
  name.value = "Carol";
  assert.equal(runs, 3);
});

test("a batch runs an effect once", () => {
  const first = new Signal(1);
  const second = new Signal(1);
  const sums = [];
  effect(() => sums.push(first.value + second.value));
  batch(() => {
    first.value = 2;
    second.value = 2;
  });
  assert.deepEqual(sums, [2, 4]);
});

test("a value changed in place can be announced", () => {
  const names = new Signal(["Alice"]);
  let count = 0;
  effect(() => {
    count = names.value.length;
  });
  names.value.push("Bob");
  names.notify();
  assert.equal(count, 2);
});

test("what is read untracked is not followed", () => {
  const name = new Signal("Alice");
  let runs = 0;
  effect(() => {
    runs += 1;
    untracked(() => name.value);
  });
  name.value = "Bob";
  assert.equal(runs, 1);
});
