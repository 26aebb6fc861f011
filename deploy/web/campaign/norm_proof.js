// The proof that a shared vector is within its bound: the device's half of
// stream_app/campaigns/verified/norm_proof.py and layout.py, where the names are explained.

import { add, mul, residue, sub, write } from "./field.js";
import { commitment, littleEndian, secretOfBoth, Transcript, uniform } from "./transcript.js";

const ROWS = 128, DIGITS = 15, REACH = 2 ** (DIGITS - 1), SPARE = 23;
const BITS = ROWS * DIGITS + SPARE, MASKS = 4, AUX = BITS + MASKS, ELEMENT_BYTES = 6;
const ROW_POINTS = 7, BIT_POINTS = 11, COLUMN_BYTES = 2 * ROWS / 8;

/** Lets the page do something else. */
const pause = () => new Promise((resolve) => { // unlike a timer, as fast in a hidden tab
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => { port1.close(); resolve(); };
  port2.postMessage(0);
});
const plus = ([a, b], [c, d]) => [add(a, c), add(b, d)];
const minus = ([a, b], [c, d]) => [sub(a, c), sub(b, d)];
const times = ([a, b], [c, d]) => [sub(mul(a, c), mul(b, d)), add(mul(a, d), mul(b, c))];

/** The payloads of both parties for the vector of a statement {context, size, bound}, which is of
 *  that size and within the bound, 2048 at most; seed and blind are secret, uniform, 32 bytes each,
 *  and used for this vector alone. */
export async function prove({ context, size, bound }, vector, seed, blind) {
  const squares = vector.reduce((sum, each) => sum + each * each, 0);
  const rounds = 32 - Math.clz32(size + AUX - 1), half = 2 ** (rounds - 1);
  const seeded = uniform(seed), draw = uniform(secretOfBoth(seed, blind));
  const masks = Array.from({ length: MASKS }, draw);
  const first = new Uint8Array(32 * (3 + rounds));
  const second = new Uint8Array(64 + ELEMENT_BYTES * (size + AUX + 4 * rounds));
  const view = new DataView(second.buffer), begin = commitment(seed, 0, new Uint8Array());
  first.set(seed);
  second.set(begin);
  second.set(blind, 32);
  let number = 0, end = 64;
  const commit = (values) => { // the next share of party 1
    const start = end;
    for (const value of values) {
      write(view, end, sub(residue(value), seeded()));
      end += ELEMENT_BYTES;
    }
    const made = commitment(blind, number, second.subarray(start, end));
    first.set(made, 32 * (1 + number++));
    return made;
  };
  const terms = [context, littleEndian(size, 8), littleEndian(bound, 8)].flatMap((b) => [...b]);
  const transcript = new Transcript(Uint8Array.from(terms), begin, commit(vector));
  const sums = await products(transcript.rows(), vector);
  const bits = bitsOf(sums, bound * bound - squares);
  transcript.absorb(commit([...bits, ...masks]));
  await pause();
  const folding = new Folding(half, vector, bits, masks, weightsOf(transcript));
  for (let n = 0; n < rounds; n++) {
    transcript.absorb(commit(folding.ends()));
    folding.fold(transcript.challenges(1)[0]);
    if (n < 2) await pause(); // the later ones are half as long each
  }
  return [first, second];
}

/** R x (ROWS,): entries of R are the difference of two bits, 32 bytes a column. */
async function products(source, vector) {
  const sums = new Int32Array(ROWS);
  let block, place = 0;
  for (let j = 0; j < vector.length; j++, place += COLUMN_BYTES) {
    if (j % (2 ** 16 / COLUMN_BYTES) === 0) {
      block = source.next().value;
      place = 0;
      if (j) await pause();
    }
    add128(sums, block, place, vector[j]);
  }
  return sums;
}

const add128 = (sums, block, place, x) => {
  for (let byte = 0; byte < COLUMN_BYTES / 2; byte++) {
    const a = block[place + byte], b = block[place + COLUMN_BYTES / 2 + byte];
    for (let bit = 0; bit < 8; bit++)
      sums[8 * byte + bit] += x * ((a >> 7 - bit & 1) - (b >> 7 - bit & 1));
  }
};

/** The digits of the products with the rows, and of the spare square, (BITS,) of 0 and 1. */
const bitsOf = (sums, spare) => {
  if (sums.some((sum) => Math.abs(sum) >= REACH)) // 2^-84
    throw new Error("products with the rows that are too long: rate another item, then try again");
  const bits = new Uint8Array(BITS);
  sums.forEach((sum, row) => {
    for (let n = 0; n < DIGITS; n++) bits[row * DIGITS + n] = sum + REACH >> n & 1;
  });
  for (let n = 0; n < SPARE; n++) bits[ROWS * DIGITS + n] = spare >> n & 1;
  return bits;
};

/** The weights of the bits, elements of F_p^2: those of the rows are for the parties alone. */
const weightsOf = (transcript) => {
  const [scale, ...points] = transcript.challenges(1 + ROW_POINTS + BIT_POINTS);
  let found = [scale];
  for (const r of points.slice(ROW_POINTS))
    found = found.flatMap((each) => {
      const upper = times(each, r);
      return [minus(each, upper), upper];
    });
  return found;
};

/** The sum of u_j v_j in the making: v, and more = u - v, which differs from 0 at few places. */
class Folding {
  constructor(half, vector, bits, masks, weights) {
    this.half = half;
    [this.re, this.im] = [new Float64Array(2 * half), new Float64Array(2 * half)];
    this.more = new Map(); // place -> element
    const placeOf = (rank) => rank + (rank < half - 2 ? 2 : 4);
    vector.forEach((each, rank) => { this.re[placeOf(rank)] = residue(each); });
    bits.forEach((bit, n) => {
      const place = placeOf(vector.length + n), [re, im] = weights[n];
      this.re[place] = bit;
      if (bit) this.more.set(place, [sub(re, 1), im]);
    });
    [0, half].forEach((place, n) => this.more.set(place, [masks[n], 0]));
    [1, half + 1].forEach((place, n) => {
      this.re[place] = masks[2 + n];
      this.more.set(place, [sub(0, masks[2 + n]), 0]);
    });
  }

  /** [place, low, rise] of `more` where it differs from 0. */
  #pairs() {
    const { more, half } = this, zero = [0, 0];
    return [...new Set([...more.keys()].map((place) => place % half))].map((place) => {
      const low = more.get(place) ?? zero, high = more.get(place + half) ?? zero;
      return [place, low, minus(high, low)];
    });
  }

  /** [re c_0, im c_0, re c_2, im c_2]. */
  ends() {
    const { re, im, half } = this;
    let [low, lowIm, high, highIm] = [0, 0, 0, 0];
    for (let j = 0; j < half; j++) {
      const a = re[j], b = im[j], c = sub(re[j + half], a), d = sub(im[j + half], b);
      const ab = mul(a, b), cd = mul(c, d);
      low = add(low, sub(mul(a, a), mul(b, b)));
      lowIm = add(lowIm, add(ab, ab));
      high = add(high, sub(mul(c, c), mul(d, d)));
      highIm = add(highIm, add(cd, cd));
    }
    let ends = [[low, lowIm], [high, highIm]];
    for (const [j, ...more] of this.#pairs()) {
      const at = [re[j], im[j]], rise = minus([re[j + half], im[j + half]], at);
      ends = ends.map((end, n) => plus(end, times(more[n], n ? rise : at)));
    }
    return ends.flat();
  }

  /** Puts a challenge r = [a, b] in the place of X. */
  fold(r) {
    const { re, im, half } = this, [a, b] = r;
    this.more = new Map(this.#pairs().map(([j, low, rise]) => [j, plus(low, times(r, rise))]));
    for (let j = 0; j < half; j++) {
      const c = sub(re[j + half], re[j]), d = sub(im[j + half], im[j]);
      re[j] = add(re[j], sub(mul(a, c), mul(b, d)));
      im[j] = add(im[j], add(mul(a, d), mul(b, c)));
    }
    this.half /= 2;
  }
}
