// Keys of items: `key` of stream_app/wire/ids.py.

import { blake } from "./transcript.js";

const DECIMAL = /^(0|[1-9][0-9]{0,18})$/, MOST_BYTES = 128;

export const hexOf = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Whether a text is a canonical decimal below 2^63: "7" is the number 7, "007" another item. */
export const isNumber = (text) => DECIMAL.test(text) && BigInt(text) < 1n << 63n;

/** The key of an item in 16 hex digits: of a text, a BigInt, or a number that has lost no digit.
 *  Error for what is no item. */
export const keyOf = (item) => {
  const text = String(item), bytes = new TextEncoder().encode(text);
  if (isNumber(text) && (typeof item !== "number" || Number.isSafeInteger(item)))
    return BigInt(text).toString(16).padStart(16, "0");
  if (typeof item !== "string") throw new Error("an integer item lies in 0 .. 2^63-1, exactly");
  if (!text || bytes.length > MOST_BYTES || /[\0\p{Surrogate}]/u.test(text))
    throw new Error(`an item has 1 to ${MOST_BYTES} bytes of UTF-8, without NUL`);
  const made = blake(8, "", [bytes]);
  made[0] |= 0x80;
  return hexOf(made);
};
