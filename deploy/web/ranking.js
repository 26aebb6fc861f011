// Lists made in the browser, from the public item side and a history that never leaves the page.
// The same numbers as producers/ranking/ranker.py; formulas and constants are explained in
// stream_app/ranking: compact_side.py, histories.py, scores.py, reasons.py.
const LIKES = [0.1, 0.25, 0.5, 0.85, 1.2]; // weight of 1 .. 5 stars
const EASE = 1, LOW_RANK = 0.1, ORDERED = 1; // weights of the standardised parts
const FLOOR = 0.1, MEMORY = 5, MOST_BECAUSE = 3;
const f32 = Math.fround; // Python rounds there too, so equal scores are equal here
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const wrong = (sentence) => { throw new Error(sentence); };

/** The bytes of GET /item-links -> the item side; throws Error for anything else. */
export const decodeSide = (buffer) => {
  const head = new DataView(buffer);
  if (buffer.byteLength < 29 || head.getUint32(0) !== 0x6d776973 || head.getUint8(4) !== 1)
    wrong("the bytes are no item side that this version can read");
  const [n, k, l, r] = [13, 17, 21, 25].map((at) => head.getUint32(at, true));
  const triples = (width) => 3 * Math.ceil(n * width / 2);
  const size = 29 + n * (36 + k + l + r) + triples(k) + triples(l);
  if (Math.max(n, k, l, r) > 4096 || n < 1 || buffer.byteLength !== size)
    wrong(`an item side of ${buffer.byteLength} bytes in place of ${size}`);
  let place = 29;
  const take = (Kind, count) =>
    new Kind(buffer.slice(place, place += count * Kind.BYTES_PER_ELEMENT));
  const floats = () => {
    const found = take(Float32Array, n);
    return found.every(Number.isFinite) ? found : wrong("item side: a number is not finite");
  };
  const weights = (scales, width) => Float32Array.from(take(Int8Array, n * width),
    (code, i) => code * f32(scales[Math.floor(i / width)] / 127));
  const links = (width) => {
    const scales = floats(), packed = take(Uint8Array, triples(width));
    const targets = Uint16Array.from({ length: n * width }, (_, i) => { // two slots in three bytes
      const [a, b, c] = packed.subarray(3 * (i >> 1));
      return i % 2 ? b >> 4 | c << 4 : a | (b & 15) << 8;
    });
    if (targets.some((slot) => slot >= n)) wrong("item side: a link leads nowhere");
    return { targets, weights: weights(scales, width), width };
  };
  const keys = Array.from(take(BigUint64Array, n), (key) => key.toString(16).padStart(16, "0"));
  const slots = new Map(keys.map((key, slot) => [key, slot]));
  if (slots.size < n) wrong("item side: an item occurs twice");
  const [popularity, ratings, rates, noise] = [floats(), floats(), floats(), floats()];
  const side = { n, r, keys, slots, popularity, ratings, rates, noise, links: links(k) };
  Object.assign(side, { next: links(l), factors: weights(floats(), r) });
  return Object.assign(side, tasteMap(side));
};

const row = (side, slot) => side.factors.subarray(slot * side.r, (slot + 1) * side.r);
/** start (r,) and the inverse (r, r) of W' D^-1 W + I, where z = start + sum of x inverse W / D. */
const tasteMap = ({ n, r, factors, rates, noise }) => {
  const matrix = Array.from({ length: r }, (_, i) =>
    Float64Array.from({ length: 2 * r + 1 }, (_, j) => Number(j === i || j === r + i)));
  for (let slot = 0; slot < n; slot++)
    for (let i = 0, at = slot * r; i < r; i++) {
      const scaled = factors[at + i] / noise[slot];
      for (let j = 0; j < r; j++) matrix[i][j] += scaled * factors[at + j];
      matrix[i][2 * r] -= scaled * rates[slot];
    }
  matrix.forEach((line, i) => { // Gauss-Jordan; no pivots, since the matrix is positive definite
    line.set(line.map((x) => x / line[i]));
    for (const other of matrix) {
      const factor = other === line ? 0 : other[i];
      line.forEach((x, j) => { other[j] -= factor * x; });
    }
  });
  return { start: matrix.map((line) => line[2 * r]),
    inverse: matrix.map((line) => line.slice(r, 2 * r)) };
};

/** What the side knows of a history, by key; of two ratings of an item the later counts. */
const known = (side, history) => {
  const newest = new Map(history.map(({ key, stars }, i) =>
    [key, [stars, history.length - 1 - i]]));
  return [...newest.keys()].filter((key) => side.slots.has(key)).sort().map((key) => {
    const [stars, age] = newest.get(key), low = Math.min(4, Math.floor(stars ?? 1));
    if (stars !== null && !(stars >= 1 && stars <= 5)) wrong(`${stars} stars: 1 to 5, or null`);
    const between = LIKES[low - 1] + (LIKES[low] - LIKES[low - 1]) * (stars - low);
    const like = f32(stars === null ? 1 : between), recent = f32(Math.exp(f32(-age / MEMORY)));
    const x = f32(like * f32(FLOOR + f32((1 - FLOOR) * recent))), slot = side.slots.get(key);
    const scaled = Float64Array.from(row(side, slot), (w) => w / side.noise[slot]);
    const tasteRow = side.inverse.map((line) => dot(line, scaled));
    return { key, slot, x, follows: f32(f32((1 + like) / 2) * recent), tasteRow };
  });
};
const tasteOf = (side, items) => Float64Array.from(side.start, (start, i) =>
  items.length && items.reduce((sum, { x, tasteRow }) => sum + x * tasteRow[i], start));
/** The taste vector (r,) of a history, oldest first: [{key, stars: 1 .. 5 or null}]. */
export const taste = (side, history) => tasteOf(side, known(side, history));

/** At most k items, neither in the history nor `excluded` (keys), best first, each with the items
 *  of the history that speak for it most: [{key, score, because: [key, ...]}]. */
export const rank = (side, history, k = 10, excluded = []) => {
  const items = known(side, history), z = tasteOf(side, items);
  const linked = ({ targets, weights, width }, by) => { // sums of rows, and of one entry of a row
    const scores = new Float64Array(side.n);
    for (const item of items) for (let at = item.slot * width, c = 0; c < width; c++, at++)
      scores[targets[at]] += f32(item[by] * weights[at]);
    const entry = (item, slot) => item[by] * weights.subarray(item.slot * width,
      (item.slot + 1) * width).reduce((sum, w, c) =>
      targets[item.slot * width + c] === slot ? sum + w : sum, 0);
    return [Float32Array.from(scores), entry];
  };
  const parts = [[EASE, ...linked(side.links, "x")],
    [LOW_RANK, side.rates.map((rate, slot) => rate + dot(row(side, slot), z)),
      (item, slot) => item.x * dot(row(side, slot), item.tasteRow)],
    [ORDERED, ...linked(side.next, "follows")]].map(([weight, scores, entry]) => {
    const mean = scores.reduce((a, b) => a + b, 0) / side.n;
    const spread = Math.sqrt(scores.reduce((sum, x) => sum + (x - mean) ** 2, 0) / side.n);
    return { weight: f32(weight), scores, entry, mean: f32(mean), spread };
  }).filter(({ spread }) => items.length && spread > 0);
  const total = items.length ? new Float32Array(side.n) : side.popularity;
  for (const { weight, scores, mean, spread } of parts)
    scores.forEach((score, slot) => {
      total[slot] += f32(weight * f32(f32(score - mean) / f32(spread)));
    });
  const passed = new Set([...items.map(({ key }) => key), ...excluded]);
  const because = (slot) => items.map((item) => [item.key, parts.reduce(
    (sum, { weight, entry, spread }) => sum + weight / spread * entry(item, slot), 0)])
    .filter(([, added]) => added > 0).sort((a, b) => b[1] - a[1]).slice(0, MOST_BECAUSE);
  return Array.from(side.keys, (key, slot) => ({ key, slot })).filter(({ key }) => !passed.has(key))
    .sort((a, b) => total[b.slot] - total[a.slot]).slice(0, k).map(({ key, slot }) =>
      ({ key, score: total[slot], because: because(slot).map(([reason]) => reason) }));
};
