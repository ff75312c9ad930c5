// Proof of work: the search for a number whose hash is known. With a SHA-256 of its own, since `crypto.subtle` does not
// exist on pages without HTTPS, and is slower for so many short messages.

const PRIMES = primes(64);
const CONSTANTS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
const SALT_WORDS = 4;

/**
 * Return the number from 0 to `maxNumber` for which SHA-256 of the salt and the number, as 4 bytes with the highest
 * first, is `hash`; or null if there is none. Blocking.
 *
 * @param {{ salt: string, hash: string, maxNumber: number }} challenge salt and hash as hexadecimal digits
 */
export function findNumber({ salt, hash, maxNumber }) {
  const target = words(hash);
  const block = new Int32Array(64); // the message of 20 bytes, padded, and its extension
  block.set(words(salt));
  block[SALT_WORDS + 1] = 0x80000000;
  block[15] = 32 * (SALT_WORDS + 1);
  const state = new Int32Array(8);
  for (let number = 0; number <= maxNumber; number++) {
    block[SALT_WORDS] = number;
    compress(block, state);
    if (state[0] === target[0] && state.every((word, index) => word === target[index])) {
      return number;
    }
  }
  return null;
}

/**
 * SHA-256 of a message of one block (FIPS 180-4, 6.2.2).
 *
 * @param {Int32Array} block 16 words of the padded message; the other 48 are written here
 * @param {Int32Array} state gets the hash
 */
function compress(block, state) {
  for (let i = 16; i < 64; i++) {
    const x = block[i - 15];
    const y = block[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    block[i] = (block[i - 16] + s0 + block[i - 7] + s1) | 0;
  }
  let a = START[0];
  let b = START[1];
  let c = START[2];
  let d = START[3];
  let e = START[4];
  let f = START[5];
  let g = START[6];
  let h = START[7];
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + (g ^ (e & (f ^ g))) + CONSTANTS[i] + block[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) | (c & (a | b)))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = START[0] + a;
  state[1] = START[1] + b;
  state[2] = START[2] + c;
  state[3] = START[3] + d;
  state[4] = START[4] + e;
  state[5] = START[5] + f;
  state[6] = START[6] + g;
  state[7] = START[7] + h;
}

/** @param {string} hex */
function words(hex) {
  return Int32Array.from(hex.match(/.{8}/g) ?? [], (digits) => Number.parseInt(digits, 16));
}

/** @param {number} count */
function primes(count) {
  /** @type {number[]} */
  const found = [];
  for (let number = 2; found.length < count; number++) {
    if (found.every((prime) => number % prime !== 0)) {
      found.push(number);
    }
  }
  return found;
}

/**
 * Return the first 32 bits of what follows the point.
 *
 * @param {number} value
 */
function fraction(value) {
  return Math.floor((value % 1) * 2 ** 32);
}
