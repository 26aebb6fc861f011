// Keyed words, commitments and challenges of a proof, byte for byte those of
// stream_app/privacy/gaussian/keyed_source.py and stream_app/campaigns/verified/transcript.py.

import { blake2b, chacha20 } from "../vendor/noble.js";
import { ofWord } from "./field.js";

const BLOCK_BYTES = 2 ** 16, ZEROS = new Uint8Array(BLOCK_BYTES);
const utf8 = (text) => new TextEncoder().encode(text);

/** BLAKE2b of some bytes: `size` bytes, `person` of at most 16 characters, maybe with a key. */
export const blake = (size, person, parts, key) => {
  const personalization = new Uint8Array(16);
  personalization.set(utf8(person));
  const hash = blake2b.create({ dkLen: size, personalization, ...(key && { key }) });
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** The little-endian bytes of a whole number. */
export const littleEndian = (value, size) =>
  Uint8Array.from({ length: size }, (_, n) => Math.floor(value / 256 ** n) % 256);

const hashed = (label, ...parts) => blake(32, "murmurec.norm.1",
  [utf8(label), ...parts].flatMap((part) => [littleEndian(part.length, 8), part]));

export const commitment = (blind, number, share) =>
  hashed("share", blind, littleEndian(number, 4), share);
export const secretOfBoth = (seed, blind) => hashed("masks", seed, blind);

/** The blocks of 65,536 bytes of a 32-byte key, in order, each in the place of the one before. */
export function* blocks(key) {
  const nonce = new Uint8Array(12), block = new Uint8Array(BLOCK_BYTES);
  for (let n = 0; ; n++) {
    new DataView(nonce.buffer).setUint32(0, n, true);
    // Block 0 of the cipher is the key of the authenticator, which is dropped.
    yield chacha20(key, nonce, ZEROS, block, 1);
  }
}

/** Uniform residues of a seed, in order: a function that returns the next one. */
export const uniform = (seed) => {
  const source = blocks(seed);
  let words = new Uint32Array(0), place = 0;
  return () => {
    for (;;) {
      if (place === words.length) {
        words = new Uint32Array(source.next().value.buffer);
        place = 0;
      }
      const found = ofWord(words[place], words[place + 1]);
      place += 2;
      if (found >= 0) return found;
    }
  };
};

/** The state after what was committed so far. */
export class Transcript {
  constructor(context, seeded, vector) { this.state = hashed("begin", context, seeded, vector); }

  absorb(committed) { this.state = hashed("next", this.state, committed); }

  /** The blocks of uniform bytes from which the rows R are read. */
  rows() { return blocks(hashed("rows", this.state)); }

  /** Elements [re, im] of F_p^2 whose second parts are not 0. */
  challenges(count) {
    const parts = [];
    for (let n = 0; n <= count; n++) {
      const words = new Uint32Array(hashed("point", this.state, Uint8Array.of(n)).buffer);
      for (let i = 0; i < words.length; i += 2) {
        const found = ofWord(words[i], words[i + 1]);
        if (found > 0) parts.push(found);
      }
    }
    return Array.from({ length: count }, (_, n) => [parts[n], parts[count + n]]);
  }
}
