// What a table of randomized response protects: proved before anything is drawn, summed afterwards.
// Formulas: stream_app/privacy, exact/certificates.py, accounting/{loss_distribution,odometer}.py.

const TOTAL = 2n ** 64n;
const refuse = (sentence) => { throw new Error(sentence); };

/** e^(a/b) * 2^256, rounded down: Taylor's series of x / 2^s in integers, squared s times. */
export const expBelow = (a, b) => {
  let low = 0n, term = 1n << 256n, halvings = 0;
  for (; a > b; halvings++) b *= 2n;
  for (let n = 1n; term; n++) { low += term; term = term * a / (b * n); }
  for (; halvings; halvings--) low = low * low >> 256n;
  return low;
};

/** The mechanism with its counts as BigInt, proved to satisfy the epsilon of its id: randomized
 *  response alone, so the existence of a rating is public, and its value protected. */
export const certified = (mechanism) => {
  const { id, counts } = mechanism, wrong = (what) => refuse(`the table of ${id} ${what}`);
  const parts = /^rr:([1-9]\d{0,2}):([1-9]\d{0,7})(?:\/([1-9]\d{0,7}))?$/.exec(id);
  const [levels, a, b] = (parts ?? []).slice(1).map((part) => BigInt(part ?? 1));
  if (!parts || levels < 2n || levels > 256n || a > 64n * b)
    refuse(`${id} is no mechanism that a browser can check`);
  const written = (count) => typeof count === "string" && /^[1-9]\d{0,19}$/.test(count);
  const rows = counts?.map?.((row) => row?.map?.((count) => written(count) ? BigInt(count) : 0n));
  if (rows?.length !== Number(levels) || rows.some((row) => row?.length !== rows.length))
    wrong(`does not have ${levels} rows of ${levels} counts`);
  if (rows.flat().includes(0n)) wrong("has a count that is not a whole number above 0, as text");
  if (rows.some((row) => row.reduce((x, y) => x + y) !== TOTAL)) wrong("does not sum to 2^64");
  const [keep, change] = rows[0];
  if (rows.some((row, v) => row.some((count, z) => count !== (v === z ? keep : change))))
    wrong("is not that of randomized response");
  if (keep < change || keep << 256n > change * expBelow(a, b)) wrong("protects less than it says");
  // What was proved, and nothing else of what the gateway says.
  return { id, family: "rr", levels: rows.length, epsilon: id.split(":")[2], counts: rows };
};

/** Laws of the loss of 1, 2, .. reports: law[n + k] bounds P(loss = k step) from above. */
function* laws([[keep, change, ...others]]) {
  const [p, q] = [Number(keep) / 2 ** 64, Number(change) / 2 ** 64], rest = q * others.length;
  const step = Math.log1p(Number(keep - change) / Number(change)) * (1 + 2 ** -48);
  for (let law = [1], n = 1; ; n++) { // the factor is above the roundings of one step
    const mass = (i) => p * (law[i - 2] ?? 0) + rest * (law[i - 1] ?? 0) + q * (law[i] ?? 0);
    law = Float64Array.from({ length: 2 * n + 1 }, (_, i) => mass(i) * (1 + 2 ** -50) + 1e-300);
    yield { n, law, step };
  }
}
const deltaAt = (epsilon, { n, law, step }) => law.slice(n).reduce(
  (sum, mass, k) => sum + mass * Math.max(0, -Math.expm1(epsilon - k * step)), 0) * (1 + 1e-12);
const ORDERS = Array.from({ length: 24 }, (_, i) => (2 + i % 2) * 2 ** (i >> 1) / 8);
const upTo40 = (x) => Math.ceil(x * 2 ** 40) / 2 ** 40;
/** The epsilon, rounded up, that n reports of one table have cost a person at delta if they end
 *  now: every value replaced by any other. The odometer of accounting/odometer.py, step by step.
 *  `campaigns` [{square, size}] beside them: mu^2 and integers of all stages, against zeros. */
export const wholePerson = (counts, n, delta, campaigns = []) => {
  if (!n && !campaigns.length) return 0;
  const [[keep, change, ...others]] = counts ?? [[1n, 1n]];
  const [p, q] = [Number(keep) / 2 ** 64, Number(change) / 2 ** 64], rest = q * others.length;
  const loss = Math.log1p(Number(keep - change) / Number(change));
  const largest = campaigns.length ? Infinity : n * loss * (1 + 2 ** -48);
  const weight = delta * 1023 / 1024 / ORDERS.length;
  const terms = ORDERS.map((s) => {
    const less = Math.exp(-s * loss);
    const divergence = loss + Math.log(p + less * (rest + q * less)) / s;
    const cost = n && n * upTo40(divergence + 1e-12 * (1 + divergence + 64 / s));
    const all = campaigns.reduce((sum, { square, size }) =>
      sum + upTo40((1 + s) * square / 2 + size * 2e-19 * (3 + 1 / s)), cost);
    return [s, Math.log(weight) - s * all * (1 + 1e-10)];
  });
  if (!(delta > 0)) return largest;
  const mixed = (x, slope) => terms.reduce(
    (sum, [s, constant]) => sum + (1 + s * slope) * Math.exp(Math.min(700, s * x + constant)), 0);
  if (mixed(0, 1) >= 1) return 0;
  let low = 0, high = 1, middle;
  while (high < largest && mixed(high, 1) < 1) high *= 2;
  high = Math.min(high, largest);
  if (mixed(high, 1) <= 1) low = high;
  while (low < (middle = (low + high) / 2) && middle < high)
    if (mixed(middle, 1) <= 1) low = middle; else high = middle;
  const found = low + Math.log1p(-mixed(low, 0));
  return Math.min(largest, found + 1e-10 * (1 + found));
};
const last = (counts, { epsilon, delta }) => {
  let before = { n: 0, law: [1], step: 0 };
  for (const found of laws(counts)) {
    if (found.n > 4096 || deltaAt(epsilon, found) > delta) return before;
    before = found;
  }
};
/** The largest n up to 4096 that fits; what fits for n fits for fewer. */
export const mostThatFit = (fits) => {
  let low = 0, high = 4097, middle;
  while (low < (middle = low + high >> 1)) if (fits(middle)) low = middle; else high = middle;
  return low;
};
/** How many reports of one table a budget {epsilon, delta} holds, 4096 at most. Campaigns {held,
 *  debits} are chosen on the way: beside them the odometer decides, without the delta `held`. */
export const room = (counts, budget, { held = 0, debits = [] } = {}) => debits.length === 0
  ? last(counts, budget).n
  : mostThatFit((n) => wholePerson(counts, n, budget.delta - held, debits) <= budget.epsilon);
/** The delta that as many reports as fit can use at the budget's epsilon, so that a plan which was
 *  made for them alone is left without a loss: producers/person/reports.py `held`. */
export const heldBy = (counts, budget) => deltaAt(budget.epsilon, last(counts, budget));
