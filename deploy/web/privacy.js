// What a table of randomized response protects: proved before anything is drawn, summed afterwards.
// The formulas: stream_app/privacy, exact/certificates.py and accounting/loss_distribution.py.

const TOTAL = 2n ** 64n;
const refuse = (sentence) => { throw new Error(sentence); };

/** e^(a/b) * 2^256, rounded down: Taylor's series of x / 2^s in integers, squared s times. */
const expBelow = (a, b) => {
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
/** The epsilon, rounded up, that n reports of one table cost a person at delta: every value
 *  replaced by any other. Exact: a device has one mechanism, so losses are steps of a grid. */
export const wholePerson = (counts, n, delta) => {
  let found = { n: 0, law: [1], step: 0 }, low = 0;
  for (const steps = laws(counts); found.n < n;) found = steps.next().value;
  let high = n * found.step;
  for (let i = 0, middle; i < 60; i++)
    if (deltaAt(middle = (low + high) / 2, found) <= delta) high = middle; else low = middle;
  return high;
};
/** How many reports of one table a budget {epsilon, delta} holds, 4096 at most. */
export const room = (counts, { epsilon, delta }) => {
  for (const found of laws(counts))
    if (found.n > 4096 || deltaAt(epsilon, found) > delta) return found.n - 1;
};
