// The public plan of a campaign, from its own bytes: stream_app/wire/campaigns/plan.py. The digest
// is of exactly these bytes, and the server is not believed what is in them.

import { hexOf, isNumber, keyOf } from "./item.js";
import { blake } from "./transcript.js";

export { hexOf };
const RATIONAL = /^[1-9][0-9]{0,19}(\/[1-9][0-9]{0,19})?$/;

export const digestOf = (bytes) => hexOf(blake(32, "murmurec.plan.1", [bytes]));

/** The fields of Python's Campaign; rationals stay text "p/q"; with digest and scope_keys in hex.
 *  Error for bytes that are no plan. */
export const decodePlan = (bytes) => {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  // Integers beyond 2^53 become {"whole": text} before a number of JavaScript rounds them.
  const exact = text.replace(/"(?:[^"\\]|\\.)*"|\d{16,}/g,
    (found) => found[0] === '"' ? found : `{"whole":"${found}"}`);
  const plan = JSON.parse(exact);
  if (plan.v !== 1) throw new Error(`version ${plan.v} of a plan: this release reads 1`);
  const scope = plan.scope.map((item) => item.whole ? BigInt(item.whole) : item);
  if (scope.some((item) => typeof item === "string" && isNumber(item)))
    throw new Error("an integer of a plan's scope is text");
  const number = plan.number.whole ?? plan.number;
  const rationals = [plan.epsilon, plan.delta, ...plan.stages.map(({ share }) => share)];
  if (!rationals.every((each) => RATIONAL.test(each)))
    throw new Error("a rational of a plan is text: p or p/q, each of at most 20 digits");
  return { ...plan, number, keys: plan.keys ?? [], scope, digest: digestOf(bytes),
    scope_keys: scope.map(keyOf) };
};
