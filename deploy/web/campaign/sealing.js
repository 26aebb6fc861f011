// A vector as the record of the topic of contributions: sealed boxes, one for each party.
// The bytes are those of stream_app/campaigns/sealing.py and stream_app/wire/campaigns/
// contribution.py, where the seed, the blind and the keys of the boxes are random. Here they are
// drawn from the device's key and everything that is sealed, so the same vector gives the same
// bytes, in a second browser with that key too, and no other vector uses a number of them again.

import { hsalsa, x25519, xsalsa20poly1305 } from "../vendor/noble.js";
import { P, residue, sub } from "./field.js";
import { prove } from "./norm_proof.js";
import { blake, littleEndian, uniform } from "./transcript.js";

const SIGMA = new TextEncoder().encode("expand 32-byte k");
export const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (b) => parseInt(b, 16));

/** The record's value for the vector (size,) Int32Array of a stage; Error for one beyond its bound,
 *  or another size. */
export async function sealed({ plan, stage, device, vector, secret }) {
  const { size, bound } = plan.stages[stage], digest = bytesOf(plan.digest);
  const named = bytesOf(device), number = littleEndian(stage, 4);
  const squares = vector.reduce((sum, each) => sum + each * each, 0);
  if (vector.length !== size || squares > bound * bound)
    throw new Error(`a vector of ${vector.length}, not of ${size} within the bound`);
  if (plan.keys.length !== plan.parties || secret.length !== 32 || named.length !== 16)
    throw new Error("a contribution needs the keys of its parties, a device and its secret");
  const drawn = drawnOf({ plan, stage, device, vector, secret });
  const context = Uint8Array.from([...digest, ...number, ...named]);
  const payloads = plan.parties === 1 ? [contentOf(vector)]
    : await prove({ context, size, bound }, vector, drawn("seed"), drawn("blind"));
  const boxes = payloads.map((payload, party) => {
    const plain = new Uint8Array(32 + payload.length);
    plain.set(blake(32, "murmurec.box.1", [context, littleEndian(party, 4)]));
    plain.set(payload, 32);
    return box(plain, bytesOf(plan.keys[party]), drawn(`box ${party}`));
  });
  return record({ plan: digest, stage, device: named, boxes, v: 1 });
}

const contentOf = (vector) =>
  new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);

/** By label, 32 bytes of the device's key and everything that is sealed. */
const drawnOf = ({ plan, stage, device, vector, secret }) => {
  const named = [bytesOf(plan.digest), littleEndian(stage, 4), bytesOf(device), contentOf(vector)];
  const root = blake(32, "murmurec.draw.1", named, secret);
  return (label) => blake(32, "murmurec.draw.1", [new TextEncoder().encode(label)], root);
};

/** For a person to look at, {a, b, vector}: numbers of what each of two parties gets, as shares of
 *  p, and of the vector, around its first rating. Null with one party, which gets the vector. */
export const sharesOf = (told, count = 160) => {
  if (told.plan.parties !== 2) return null;
  const next = uniform(drawnOf(told)("seed")), first = told.vector.findIndex((each) => each);
  const begin = Math.max(0, Math.min(first - count / 4, told.vector.length - count));
  for (let n = 0; n < begin; n++) next();
  const vector = [...told.vector.subarray(begin, begin + count)];
  const a = vector.map(next), b = vector.map((each, n) => sub(residue(each), a[n]));
  return { a: a.map((each) => each / P), b: b.map((each) => each / P), vector };
};

/** libsodium's sealed box of some bytes, with this secret key of its own. */
const box = (plain, key, ephemeral) => {
  const own = x25519.getPublicKey(ephemeral), nonce = blake(24, "", [own, key]);
  const words = (bytes) => new Uint32Array(bytes.slice().buffer), shared = new Uint32Array(8);
  hsalsa(words(SIGMA), words(x25519.getSharedSecret(ephemeral, key)), new Uint32Array(4), shared);
  const inside = xsalsa20poly1305(new Uint8Array(shared.buffer), nonce).encrypt(plain);
  const found = new Uint8Array(own.length + inside.length);
  found.set(own);
  found.set(inside, own.length);
  return found;
};

/** MessagePack of a map of whole numbers below 128, bytes and lists of bytes. */
const record = (fields) => {
  const parts = [], put = (...bytes) => parts.push(Uint8Array.from(bytes));
  const value = (each) => {
    if (typeof each === "number") put(each);
    else if (Array.isArray(each)) { put(0x90 + each.length); each.forEach(value); }
    else {
      const kind = each.length < 2 ** 8 ? 0 : each.length < 2 ** 16 ? 1 : 2;
      put(0xc4 + kind, ...littleEndian(each.length, 2 ** kind).reverse());
      parts.push(each);
    }
  };
  put(0x80 + Object.keys(fields).length);
  for (const [name, each] of Object.entries(fields)) {
    put(0xa0 + name.length);
    parts.push(new TextEncoder().encode(name));
    value(each);
  }
  const found = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) { found.set(part, place); place += part.length; }
  return found;
};
