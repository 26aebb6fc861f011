// The vector of a stage from what a person rated: stream_app/campaigns/stage_vectors.py with what
// it calls. Integers of norm at most the bound, whatever the side is; equal to Python's, unless the
// last bit of a sum of the fold-in decides a rounding, where the order of its additions differs.

import { featuresOf } from "./features.js";

const MEAN = 3.6, LIKED = 4, PRESENCE = 0.7, OWN_MEAN = 2, CLIP = 1.2, TASTE_CLIP = 3, REACH = 4;
const BIAS_RIDGE = 7, TASTE_RIDGE = 0.5, FEATURE_RIDGE = 100;
const clip = (x, most) => Math.min(most, Math.max(-most, x));
const STARS = { bias, head, moment, refine };
export const KINDS = ["together", ...Object.keys(STARS)];
export const isStars = (kind) => Object.hasOwn(STARS, kind);

/** The vector (size,) Int32Array of stage `index` of a plan. rated: [{key, level}], oldest first,
 *  on `plan.levels` levels (5). side: of `decodeSide`, which stages of stars after the first need;
 *  Error where it is not that after the stages before. */
export const vectorOf = (plan, index, rated, side) => {
  const { kind, size, bound } = plan.stages[index];
  const ratings = inScope(plan, rated);
  if (!isStars(kind)) return together(ratings, size, bound);
  const before = starsBefore(plan, index, side), found = STARS[kind](before, ratings);
  if (found.length !== size)
    throw new Error(`stage ${kind}: ${found.length} integers instead of ${size}`);
  return found.every(Number.isFinite) ? toGrid(found, bound) : new Int32Array(size);
};

/** [{place, stars}] of the items of the scope, each with its newest rating. */
const inScope = ({ scope_keys, levels = 5 }, rated) => {
  const places = new Map(scope_keys.map((key, place) => [key, place])), found = new Map();
  for (const { key, level } of rated) {
    found.delete(key);
    const stars = 1 + 4 * level / (levels - 1);
    if (places.has(key)) found.set(key, { place: places.get(key), stars });
  }
  return [...found.values()];
};

const starsBefore = ({ digest, stages, scope_keys, features }, index, side) => {
  const items = scope_keys.length, learned = stages.slice(0, index).filter((s) => isStars(s.kind));
  const ofHead = stages.filter(({ kind }) => kind === "head")[0].size;
  const heads = (1 + Math.sqrt(1 + 8 * ofHead)) / 2;
  const d = stages.findLast(({ kind }) => kind === "refine").size / items - 1;
  const known = learned.length ? side : { plan: digest, stages: 0, biases: new Float64Array(items),
    vectors: new Float64Array(items * d), head: [], counts: new Float64Array(items), precision: 0,
    whitening: Float64Array.from({ length: d * d }, (_, n) => Number(n % (d + 1) === 0)) };
  const sizes = { biases: items, counts: items, vectors: items * d, whitening: d * d,
    head: learned.length && heads };
  if (known?.plan !== digest || known.stages !== learned.length ||
      Object.entries(sizes).some(([name, size]) => known[name].length !== size))
    throw new Error(`stage ${index} (${stages[index].kind}) is computed from the public item ` +
      `side after the ${learned.length} stages of stars before it, and this is another one`);
  return { ...known, items, d, features: featuresOf(features, items) };
};

function together(ratings, size, bound) {
  const items = (Math.sqrt(8 * size + 1) - 1) / 2, vector = new Float64Array(size);
  const liked = ratings.filter(({ place, stars }) => stars >= LIKED && place < items)
    .map(({ place }) => place).sort((a, b) => a - b);
  liked.forEach((i, n) => {
    vector[i] = 1 / liked.length;
    for (const j of liked.slice(n + 1))
      vector[items + i * (2 * items - i - 1) / 2 + j - i - 1] = Math.SQRT2 / liked.length;
  });
  return toGrid(vector, bound);
}

function bias({ items, biases }, ratings) {
  const left = ratings.map(({ place, stars }) => stars - MEAN - biases[place]);
  const own = sum(left) / (left.length + OWN_MEAN), vector = new Float64Array(2 * items);
  const residuals = left.map((each) => clip(each - own, CLIP));
  const norm = Math.sqrt(sum(residuals.map((x) => x * x)) + left.length * PRESENCE ** 2);
  ratings.forEach(({ place }, n) => {
    vector[place] = residuals[n] / norm;
    vector[items + place] = PRESENCE / norm;
  });
  return vector;
}

function head(side, ratings) {
  const { residuals } = foldIn(side, ratings), all = new Float64Array(side.items);
  ratings.forEach(({ place }, n) => { all[place] = clip(residuals[n], CLIP); });
  const z = Array.from(side.head, (place) => all[place]);
  const upper = Float64Array.from(z.flatMap((each, n) => z.slice(n + 1).map((x) => each * x)));
  const norm = Math.sqrt(sum(upper.map((x) => x * x)));
  return norm > 0 ? upper.map((x) => x / norm) : upper;
}

function moment(side, ratings) {
  const { taste } = foldIn(side, ratings);
  const norm = Math.max(sum(taste.map((x) => x * x)), REACH * taste.length);
  const upper = taste.flatMap((each, n) => taste.slice(n + 1).map((x) => each * x / norm));
  const diagonal = taste.map((x) => x * x / norm);
  return Float64Array.from([...diagonal, ...upper.map((x) => Math.SQRT2 * x)]);
}

function refine(side, ratings) {
  const { items, d, counts, precision, whitening } = side, person = foldIn(side, ratings);
  const weights = counts.map((count) => Math.max(count, 0.5 / Math.sqrt(precision)));
  const middle = weights.slice().sort()[weights.length >> 1];
  const taste = person.taste.map((_, k) =>
    person.taste.reduce((total, p, n) => total + p * whitening[n * d + k], 0));
  const along = [1, ...taste.map((x) => clip(x, TASTE_CLIP) / Math.sqrt(d))];
  const errors = ratings.map(({ place }, n) =>
    clip(person.residuals[n], CLIP) * (1 / Math.sqrt(Math.sqrt(weights[place] / middle))));
  const norm = Math.sqrt(sum(errors.map((x) => x * x)) * sum(along.map((x) => x * x)));
  const vector = new Float64Array((1 + d) * items);
  ratings.forEach(({ place }, n) => along.forEach((each, k) => {
    vector[k * items + place] = norm > 0 ? each * errors[n] / norm : each * errors[n];
  }));
  return vector;
}

/** {taste, residuals} of ridge regression: stars/fold_in.py. */
const foldIn = ({ biases, vectors, d, features: { width, values } }, ratings) => {
  const rows = ratings.map(({ place }) => [1, ...vectors.slice(place * d, place * d + d),
    ...values.slice(place * width, place * width + width)]);
  const left = ratings.map(({ place, stars }) => stars - MEAN - biases[place]);
  const system = Array.from({ length: 1 + d + width }, (_, j) => { // with the right side last
    const row = Array.from({ length: 1 + d + width }, () => 0);
    row[j] = j === 0 ? BIAS_RIDGE : j <= d ? TASTE_RIDGE : FEATURE_RIDGE;
    return [...row, 0];
  });
  rows.forEach((row, i) => row.forEach((each, j) => {
    row.forEach((other, k) => { system[j][k] += each * other; });
    system[j][row.length] += each * left[i];
  }));
  const found = solved(system);
  const expected = (row) => row.reduce((total, each, n) => total + each * found[n], 0);
  const residuals = left.map((each, i) => each - expected(rows[i]));
  return { taste: found.slice(1, 1 + d), residuals };
};

/** x of A x = b for the rows [A | b]: Gaussian elimination with the largest pivot. */
const solved = (rows) => {
  const size = rows.length;
  for (let j = 0; j < size; j++) {
    let best = j;
    for (let i = j; i < size; i++) if (Math.abs(rows[i][j]) > Math.abs(rows[best][j])) best = i;
    [rows[j], rows[best]] = [rows[best], rows[j]];
    for (let i = j + 1; i < size; i++) {
      const factor = rows[i][j] / rows[j][j];
      for (let k = j; k <= size; k++) rows[i][k] -= factor * rows[j][k];
    }
  }
  const found = Array.from({ length: size }, () => 0);
  for (let j = size - 1; j >= 0; j--) {
    let left = rows[j][size];
    for (let k = j + 1; k < size; k++) left -= rows[j][k] * found[k];
    found[j] = left / rows[j][j];
  }
  return found;
};

/** The sum in NumPy's order: by pairs of blocks of at most 128, eight sums a block. */
const sum = (values, start = 0, count = values.length) => {
  if (count > 128) {
    const half = (count >> 1) - (count >> 1) % 8;
    return sum(values, start, half) + sum(values, start + half, count - half);
  }
  let [found, n] = [0, 0];
  if (count >= 8) {
    const r = values.slice(start, start + 8);
    for (n = 8; n < count - count % 8; n += 8)
      for (let k = 0; k < 8; k++) r[k] += values[start + n + k];
    found = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
  }
  for (; n < count; n++) found += values[start + n];
  return found;
};

const toEven = (x) => {
  const low = Math.floor(x), rest = x - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
};

/** A vector in units of 1 / bound, of integer norm at most the bound: contribution_vectors.py. */
const toGrid = (vector, bound) => {
  const largest = vector.reduce((most, each) => Math.max(most, Math.abs(each)), 0);
  if (!largest) return new Int32Array(vector.length);
  const length = Math.sqrt(sum(vector.map((each) => (each / largest) ** 2)));
  const factor = bound * Math.min(largest, 1 / length);
  let scaled = vector.map((each) => each / largest * factor), excess = 2 ** -40;
  for (;;) {
    const found = Int32Array.from(scaled, toEven);
    if (found.reduce((total, each) => total + each * each, 0) <= bound * bound) return found;
    const less = 1 - excess;
    scaled = scaled.map((each) => each * less);
    excess = Math.min(2 * excess, 0.5);
  }
};
