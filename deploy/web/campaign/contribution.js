// A browser's contribution to the open stage of a campaign: the record, ready to be journaled and
// sent. It reads of the plan: digest, parties, keys, stages [{kind, size, bound}], scope_keys,
// features {genres, flags, years} or null, and `levels` of the device's scale (5): see `plan.js`.
// Nothing is debited here, and the terms are those that `terms.js` has checked before.

import { sealed, sharesOf } from "./sealing.js";
import { vectorOf } from "./vectors.js";

/** {body: Uint8Array, shares}: what the record of the topic of contributions holds, its key being
 *  `device`; `shares` of `sealing.js`.
 *
 *  plan: of `decodePlan`. stage: its index. device: the pseudonym in hex. rated: [{key, level}],
 *  oldest first, keys of 16 hex digits. side: of `decodeSide` for stages of stars after the first.
 *  secret: 32 bytes of the device's key. The same arguments give the same bytes, in any browser.
 *  Error, before anything is drawn, where the side is not that after the stages before. */
export async function contribution({ plan, stage, device, rated, side, secret }) {
  const vector = vectorOf(plan, stage, rated, side);
  const told = { plan, stage, device, vector, secret };
  return { body: await sealed(told), shares: sharesOf(told) };
}
