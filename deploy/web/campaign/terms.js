// Whether a device takes part in a campaign: producers/campaign/terms.py, and of planning.py what
// it calls. The plan is the owner's, who is not trusted: with other keys he reads the vectors, and
// with a scope of his choice he aims at something. The cost of the noise is computed in doubles, to
// within 1e-9; a plan passes whose delta is up to a millionth above what it states, so that none is
// refused for a rounding.

const DELTA = 1e-6; // at which the epsilon that a user allows is meant
const MOST_BOUND = { 1: 2 ** 15, 2: 2 ** 11 }, LARGEST_EPSILON = 64, LARGEST_SQUARE = 1e4;
const SMOOTHING = 9 / 4, ROUNDING = 1 + 1e-6;
const number = (text) => { const [p, q = 1] = text.split("/").map(Number); return p / q; };
const names = (keys) => keys.map((key) => `${key.slice(0, 16)}...`).join(" and ") || "of no party";

/** Throws Error with a sentence for a plan that the device takes no part in.
 *
 *  pinned: {keys: [hex] in the order of the parties, items: [16 hex digits] of the scope in its
 *  order, most_epsilon: 2 where it is left out}. */
export const check = (plan, { keys, items, most_epsilon = 2 }) => {
  const campaign = `campaign ${plan.number}`, epsilon = number(plan.epsilon);
  const refuse = (what) => {
    throw new Error(`${campaign} ${what}: nothing was contributed`);
  };
  if (![1, 2].includes(plan.parties) || plan.keys.length !== plan.parties ||
      keys.length !== plan.parties || plan.keys.some((key, party) => key !== keys[party]))
    refuse(`names the keys ${names(plan.keys)}, and this device has pinned ${names(keys)}, whose ` +
      "holders alone may read what it seals");
  if (plan.signed) refuse("counts signed contributions alone, and a browser signs none");
  const other = plan.scope_keys.findIndex((key, place) => key !== items[place]);
  if (plan.scope_keys.length !== items.length || other >= 0)
    refuse(`is over ${plan.scope_keys.length} items, and this device has pinned ${items.length}` +
      (other < 0 ? "" : `; item ${other + 1} is another one`));
  if (!(epsilon <= most_epsilon))
    refuse(`states epsilon ${epsilon}, and this device allows ${most_epsilon}`);
  checkStages(plan, refuse);
  const square = costOf(plan.stages), delta = number(plan.delta);
  if (!(square <= LARGEST_SQUARE && epsilon <= LARGEST_EPSILON))
    refuse("has noise so small beside its bounds that it protects nothing");
  if (!(deltaOf(square, epsilon) <= delta * ROUNDING))
    refuse(`costs more than the epsilon ${epsilon} at delta ${delta} that it states`);
  if (!(deltaOf(square, most_epsilon) <= DELTA * ROUNDING))
    refuse(`costs more than epsilon ${most_epsilon} at delta ${DELTA}, which this device allows`);
};

const whole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;

const checkStages = ({ stages, parties, scope_keys: { length: items } }, refuse) => {
  for (const [index, { kind, size, bound, variance }] of stages.entries()) {
    if (kind !== "together") refuse(`has the stage ${index} of no kind that this device knows`);
    if (!whole(size, 1, 48_000) || !whole(variance, 4, 2 ** 32) ||
        !whole(bound, 1, MOST_BOUND[parties]))
      refuse(`has the stage ${index} of ${size} integers, bound ${bound}, noise ${variance}`);
    if (!whole((Math.sqrt(8 * size + 1) - 1) / 2, 2, items))
      refuse(`has the stage ${index} of ${size} integers, which no number of items gives`);
  }
};

/** mu^2 of all stages together: gaussian/certificate.py, whose slack is below 1e-12 here. */
export const costOf = (stages) => stages.reduce(
  (sum, { bound, variance }) => sum + bound ** 2 / (variance - SMOOTHING), 0);

/** delta(epsilon) of mu^2: phi(a) (M(-a) - M(-b)), a, b = +-mu/2 - epsilon/mu, M(x) of Mills:
 *  Phi(-x) / phi(x). */
export const deltaOf = (square, epsilon) => {
  const mu = Math.sqrt(square), a = mu / 2 - epsilon / mu, b = a - mu;
  if (a > 8) return 1;
  return Math.exp(-a * a / 2) / Math.sqrt(2 * Math.PI) * (mills(-a) - mills(-b)) * (1 + 1e-9);
};

const mills = (x) => {
  let found = 0;
  if (x > 3) { // a continued fraction, from its end
    for (let n = 200; n; n--) found = n / (x + found);
    return 1 / (x + found);
  }
  for (let n = 1, term = x; Math.abs(term) > 1e-18 * Math.abs(found) && n < 999; n += 2) {
    found += term;
    term *= x * x / (n + 2);
  }
  return Math.sqrt(Math.PI / 2) * Math.exp(x * x / 2) - found;
};
