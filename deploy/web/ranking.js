// Lists made in the browser, from the public item side and a history that never leaves the page.
// The same numbers as producers/ranking/ranker.py; formulas and constants are explained in
// stream_app/ranking: compact_side.py, histories.py, scores.py, reasons.py.
const f32 = Math.fround; // Python rounds there too, so equal scores are equal here
const MEMORY = 5, LIKED = 3.8, RATED = f32(0.2), SHARE = 0.3, MOST_BECAUSE = 3;
const HEAD = 41, COMPONENTS = 9;
const DEFAULT = [1, 0, 0, 0, 0, 0, 0, 0, SHARE, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const wrong = (sentence) => { throw new Error(sentence); };

/** The bytes of GET /item-links -> the item side; throws Error for anything else. */
export const decodeSide = (buffer) => {
  const head = new DataView(buffer);
  if (buffer.byteLength < HEAD || head.getUint32(0) !== 0x6d776973 || head.getUint8(4) !== 2)
    wrong("the bytes are no item side that this version can read");
  const [n, k, l, b, r, c, d] = [13, 17, 21, 25, 29, 33, 37].map((at) => head.getUint32(at, true));
  const triples = (width) => 3 * Math.ceil(n * width / 2);
  const size = HEAD + n * (40 + k + l + b + r) + triples(k) + triples(l) + triples(b) + 4 * (c + d);
  if (Math.max(n, k, l, b, r) > 4096 || n < 1 || buffer.byteLength !== size ||
      [c, d].some((count) => count && count !== DEFAULT.length))
    wrong(`an item side of ${buffer.byteLength} bytes in place of ${size}`);
  let place = HEAD;
  const take = (Kind, count) =>
    new Kind(buffer.slice(place, place += count * Kind.BYTES_PER_ELEMENT));
  const floats = (count = n) => {
    const found = take(Float32Array, count);
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
  const [popularity, lately, liking, ratings] = [floats(), floats(), floats(), floats()];
  if (!popularity.every((p) => p > 0)) wrong("item side: a popularity is not above 0");
  const [linked, within, between] = [links(k), links(l), links(b)];
  const side = { n, r, keys, slots, popularity, lately, liking, ratings };
  Object.assign(side, { links: linked, within, between, factors: weights(floats(), r) });
  return Object.assign(side, { next: floats(c), now: floats(d) });
};

/** What the side knows of a history; of two ratings of an item the later counts. A day of -1, or
 *  none, is not known; equal places of a day were rated at one time. */
const known = (side, history) => {
  let day = -1;
  const timed = history.map(({ key, stars, day: own = -1, place = 0 }) => {
    if (stars !== null && !(stars >= 1 && stars <= 5)) wrong(`${stars} stars: 1 to 5, or null`);
    return { key, x: stars === null || stars >= LIKED ? 1 : RATED, day: day = Math.max(day, own),
      place, own };
  });
  const last = timed.at(-1)?.own >= 0 ? day : Infinity;
  const places = [...new Set(timed.filter((each) => each.day === last).map(({ place }) => place))]
    .sort((a, b) => a - b).reverse();
  const newest = new Map();
  for (const each of timed) { newest.delete(each.key); newest.set(each.key, each); }
  return [...newest.values()].filter(({ key }) => side.slots.has(key)).map(
    ({ key, x, day: of, place }) => {
      const visit = Number(of === last);
      const recent = visit && f32(Math.exp(f32(-places.indexOf(place) / MEMORY)));
      return { key, slot: side.slots.get(key), x, visit, recent };
    });
};

/** Where a history lies among the tastes (r,): the mean of its items' factors, by x. */
export const taste = (side, history) => {
  const found = new Float64Array(side.r);
  for (const { slot, x } of known(side, history))
    for (let i = 0; i < side.r; i++) found[i] += x * side.factors[slot * side.r + i];
  return found;
};

/** At most k items, neither in the history nor `excluded` (keys), best first, each with the items
 *  of the history that speak for it most: [{key, score, because: [key, ...]}]. `now`: for this
 *  visit, else for the next one. */
export const rank = (side, history, k = 10, excluded = [], now = false) => {
  const items = known(side, history), learned = now ? side.now : side.next;
  const length = Math.log1p(items.length) / 4, w = learned.length ? learned : DEFAULT;
  const used = Array.from({ length: COMPONENTS }, (_, c) =>
    f32(f32(w[c]) + f32(w[COMPONENTS + c]) * length));
  const sums = ({ targets, weights, width }, by) => {
    const found = new Float64Array(side.n);
    for (const item of items) for (let at = item.slot * width, c = 0; c < width; c++, at++)
      found[targets[at]] += f32(by(item) * weights[at]);
    return Float32Array.from(found);
  };
  const parts = [ // table, weight of an item of the history, whether the root is taken
    [side.links, ({ x }) => x, false], [side.links, ({ x, visit }) => x * visit, false],
    [side.links, ({ x, recent }) => f32(x * recent), false], null, null, null,
    [side.within, ({ recent }) => recent, true], [side.between, ({ visit }) => visit, true], null,
  ].map((part, c) => part && used[c] && { weight: used[c], table: part[0], by: part[1],
    root: part[2], scores: sums(part[0], part[1]) });
  const alone = { 3: (slot) => f32(Math.log(side.popularity[slot])),
    4: (slot) => side.lately[slot], 5: (slot) => side.liking[slot],
    8: (slot) => side.popularity[slot] };
  const total = Float32Array.from(side.keys, (_, slot) => parts.reduce((sum, part, c) => {
    if (!part) return alone[c] && used[c] ? f32(sum + f32(used[c] * alone[c](slot))) : sum;
    const score = part.scores[slot];
    return f32(sum + f32(part.weight * (part.root ? f32(Math.sqrt(score)) : score)));
  }, 0));
  const entry = ({ targets, weights, width }, item, slot) => weights
    .subarray(item.slot * width, (item.slot + 1) * width).reduce((sum, weight, c) =>
      targets[item.slot * width + c] === slot ? sum + weight : sum, 0);
  const added = (item, slot) => parts.reduce((sum, part) => {
    if (!part || part.root && !part.scores[slot]) return sum;
    return sum + part.weight * part.by(item) * entry(part.table, item, slot) /
      (part.root ? Math.sqrt(part.scores[slot]) : 1);
  }, 0);
  const passed = new Set([...items.map(({ key }) => key), ...excluded]);
  const because = (slot) => items.map((item) => [item.key, added(item, slot)])
    .filter(([, more]) => more > 0).sort((a, b) => b[1] - a[1]).slice(0, MOST_BECAUSE);
  return Array.from(side.keys, (key, slot) => ({ key, slot })).filter(({ key }) => !passed.has(key))
    .sort((a, b) => total[b.slot] - total[a.slot]).slice(0, k).map(({ key, slot }) =>
      ({ key, score: total[slot], because: because(slot).map(([reason]) => reason) }));
};
