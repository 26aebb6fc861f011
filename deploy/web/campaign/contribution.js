// A browser's contribution to the open stage of a campaign: the record, ready to be journaled and
// sent. It reads of the plan: digest, parties, keys, stages [{kind, size, bound}], scope_keys, and
// `levels` of the device's scale (5): see `plan.js`.
// Nothing is debited here, and the terms are those that `terms.js` has checked before.

import { sealed, sharesOf } from "./sealing.js";
import { vectorOf } from "./vectors.js";

/** {body: Uint8Array, shares}: what the record of the topic of contributions holds, its key being
 *  `device`; `shares` of `sealing.js`.
 *
 *  plan: of `decodePlan`. stage: its index. device: the pseudonym in hex. rated: [{key, level}],
 *  oldest first, keys of 16 hex digits. secret: 32 bytes of the device's key. The same arguments
 *  give the same bytes, in any browser. */
export async function contribution({ plan, stage, device, rated, secret }) {
  const vector = vectorOf(plan, stage, rated);
  const told = { plan, stage, device, vector, secret };
  return { body: await sealed(told), shares: sharesOf(told) };
}
