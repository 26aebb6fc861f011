// The vector of a stage from what a person rated: stream_app/campaigns/together.py with what it
// calls. Integers of norm at most the bound, equal to Python's.

const LIKED = 4;

/** The vector (size,) Int32Array of stage `index` of a plan. rated: [{key, level}], oldest first,
 *  on `plan.levels` levels (5). */
export const vectorOf = (plan, index, rated) => {
  const { size, bound } = plan.stages[index], vector = new Float64Array(size);
  const items = (Math.sqrt(8 * size + 1) - 1) / 2;
  const liked = inScope(plan, rated).filter(({ place, stars }) => stars >= LIKED && place < items)
    .map(({ place }) => place).sort((a, b) => a - b);
  liked.forEach((i, n) => {
    vector[i] = 1 / liked.length;
    for (const j of liked.slice(n + 1))
      vector[items + i * (2 * items - i - 1) / 2 + j - i - 1] = Math.SQRT2 / liked.length;
  });
  return toGrid(vector, bound);
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
