// Arithmetic modulo p = 2^48 - 65 and in F_p^2 on doubles, which hold every residue exactly.
// Definitions: stream_app/campaigns/verified/field.py. Products are made of 24-bit limbs.
// Not of constant time: what it computes with is on this machine anyway.

export const P = 2 ** 48 - 65;
const LIMB = 2 ** 24, UNIT = 2 ** -24;

export const add = (a, b) => (a + b >= P ? a + b - P : a + b);
export const sub = (a, b) => (a < b ? a - b + P : a - b);

export const mul = (a, b) => {
  const a1 = Math.floor(a * UNIT), a0 = a - a1 * LIMB;
  const b1 = Math.floor(b * UNIT), b0 = b - b1 * LIMB;
  const middle = a0 * b1 + a1 * b0, carry = Math.floor(middle * UNIT);
  // high 2^48 is 65 high, and 65 high could be above 2^53: its upper limb is taken first.
  const high = a1 * b1 + carry, upper = Math.floor(high * UNIT);
  const folded = 65 * upper, over = Math.floor(folded * UNIT);
  const sum = a0 * b0 + (middle - carry * LIMB + folded - over * LIMB) * LIMB +
    65 * (high - upper * LIMB + over);
  const rest = sum - Math.floor(sum * 2 ** -48) * P;
  return rest >= P ? rest - P : rest;
};

/** The residue of an integer of less than 48 bits. */
export const residue = (integer) => (integer < 0 ? integer + P : integer);

/** Writes a residue as 6 bytes, little-endian. */
export const write = (view, place, value) => {
  const high = Math.floor(value / 2 ** 32);
  view.setUint32(place, value - high * 2 ** 32, true);
  view.setUint16(place + 4, high, true);
};

/** The residue in the low 48 bits of a word of two uint32, NaN where they are p or more. */
export const ofWord = (low, high) => {
  const value = low + (high & 0xffff) * 2 ** 32;
  return value < P ? value : NaN;
};
