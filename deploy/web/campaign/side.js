// What the stages before have published, as MessagePack: stream_app/campaigns/public_side.py.
// Not trusted: a vector is within its bound whatever stands here.

import { decode } from "./messagepack.js";
import { hexOf } from "./plan.js";

const MAX_BYTES = 2 * 2 ** 20;

/** {plan, stages, biases, counts, vectors, head, whitening, precision} of the bytes: the digest of
 *  the plan, and what stages of stars read; 0 stages before the first. Error for other bytes. */
export const decodeSide = (bytes) => {
  if (bytes.length > MAX_BYTES) throw new Error(`a side of ${bytes.length} bytes: ${MAX_BYTES}`);
  const published = decode(bytes), { stars, v } = decode(published.side);
  if (published.v !== 1 || v !== 1) throw new Error(`version ${v} of a side: this release reads 1`);
  const plan = hexOf(published.plan);
  const floats = (part) => Float64Array.from(wide(Float32Array, part));
  if (!stars) return { plan, stages: 0 };
  const { stages, precision, biases, counts, vectors, head, whitening } = stars;
  return { plan, stages, precision, biases: floats(biases), counts: floats(counts),
    vectors: floats(vectors), head: wide(Uint32Array, head), whitening: floats(whitening) };
};

const wide = (Kind, part) => new Kind(Uint8Array.from(part).buffer);
