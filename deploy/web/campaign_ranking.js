// Lists made in the browser from what a campaign has published and a history that never leaves the
// page. The same as producers/ranking/campaign_ranker.py; formulas and constants are explained in
// stream_app/campaigns: item_scores.py, together.py.

import { decode } from "./campaign/messagepack.js";
import { featuresOf } from "./campaign/features.js";
import { keyOf } from "./campaign/item.js";

const LEAST_PRIOR = 4, PRIOR_LIKES = 60, SPREAD = 50, RIDGE = 20, FEWEST_DIRECTIONS = 3;
const LIKED = 4, SLOPE = 0.4, USUAL = 4.5, RECENT = 5, FLOOR = 0.2;
const MOST_BECAUSE = 3, MAX_BYTES = 2 * 2 ** 20;

const floats = (bytes) => new Float32Array(Uint8Array.from(bytes).buffer);

/** p (n,) by the order of the scope. */
const publicShares = (items) => {
  const found = Float64Array.from({ length: items }, (_, place) => 1 / (place + SPREAD));
  const total = found.reduce((a, b) => a + b, 0);
  return found.map((each) => each / total);
};

/** The public side of a campaign from the bytes of GET /campaign/side; Error for other bytes.
 *  `films`: the catalogue by key. */
export const decodeCampaign = (buffer, films) => {
  if (buffer.byteLength > MAX_BYTES) throw new Error(`a side of ${buffer.byteLength} bytes`);
  const published = decode(new Uint8Array(buffer)), side = decode(published.side);
  if (published.v !== 1 || side.v !== 1)
    throw new Error(`version ${side.v} of a campaign's side: this release reads 1`);
  const keys = side.scope.map(keyOf), described = keys.map((key) => films.get(key));
  const { together } = side, { width, values } = featuresOf(described);
  const shares = publicShares(keys.length);
  const weights = together ? floats(together.weights) : [];
  const learned = weights.length >= FEWEST_DIRECTIONS && { weights, items: together.items,
    vectors: floats(together.vectors) };
  if (learned && learned.vectors.length !== learned.items * weights.length)
    throw new Error("a campaign's side whose directions have another size");
  const slots = new Map(keys.map((key, slot) => [key, slot]));
  return { keys, slots, shares, width, values, together: learned || null, campaign: true };
};

/** Likes of a history, oldest first: [[slot, x]], each item by its newest rating. */
const likesOf = ({ slots }, history) => {
  const newest = new Map();
  for (const { key, stars } of history) {
    newest.delete(key);
    if (slots.has(key)) newest.set(key, stars ?? LIKED);
  }
  const liked = [...newest].filter(([, stars]) => stars >= LIKED);
  return { rated: newest, likes: liked.map(([key, stars], n) => {
    const age = liked.length - 1 - n, recent = FLOOR + (1 - FLOOR) * Math.exp(-age / RECENT);
    return [slots.get(key), Math.max(1 + SLOPE * (stars - USUAL), 0) * recent];
  }) };
};

/** P (n,) of a person with these likes. */
const prior = ({ shares, width, values }, likes) => {
  const mean = new Float64Array(width), taste = new Float64Array(width);
  shares.forEach((share, i) => {
    for (let k = 0; k < width; k++) mean[k] += share * values[i * width + k];
  });
  const total = likes.reduce((sum, [, x]) => sum + x, 0) + RIDGE;
  for (const [slot, x] of likes)
    for (let k = 0; k < width; k++) taste[k] += x * (values[slot * width + k] - mean[k]) / total;
  const odds = shares.map((_, i) => {
    let sum = 0;
    for (let k = 0; k < width; k++) sum += (values[i * width + k] - mean[k]) * taste[k];
    return sum;
  });
  const most = odds.reduce((a, b) => Math.max(a, b), -Infinity);
  const found = shares.map((share, i) => share * Math.exp(odds[i] - most));
  const all = found.reduce((a, b) => a + b, 0);
  return found.map((each) => each / all);
};

/** At most k items that are not in the history, best first: [{key, score, because: [key, ..]}]. */
export const rankCampaign = (side, history, k = 10) => {
  const { rated, likes } = likesOf(side, history), { together, keys } = side;
  let scores = prior(side, likes);
  const linked = (slot, other) => { // what one like adds to an item by their links, for x = 1
    const { vectors, weights } = together, d = weights.length;
    let sum = 0;
    for (let a = 0; a < d; a++) sum += vectors[slot * d + a] * weights[a] * vectors[other * d + a];
    return sum;
  };
  const among = together ? likes.filter(([slot]) => slot < together.items) : [];
  if (together) {
    const scale = Math.max(LEAST_PRIOR, PRIOR_LIKES / together.weights.length);
    const d = together.weights.length, taste = new Float64Array(d);
    for (const [slot, x] of among)
      for (let a = 0; a < d; a++)
        taste[a] += x * together.vectors[slot * d + a] * together.weights[a];
    scores = scores.map((score, i) => {
      let sum = scale * score;
      for (let a = 0; i < together.items && a < d; a++) sum += together.vectors[i * d + a] * taste[a];
      return sum;
    });
  }
  const because = (slot) => (together && slot < together.items ? among : [])
    .map(([like, x]) => [keys[like], x * linked(like, slot)])
    .filter(([, more]) => more > 0).sort((a, b) => b[1] - a[1]).slice(0, MOST_BECAUSE)
    .map(([key]) => key);
  return keys.map((key, slot) => ({ key, slot })).filter(({ key }) => !rated.has(key))
    .sort((a, b) => scores[b.slot] - scores[a.slot]).slice(0, k)
    .map(({ key, slot }) => ({ key, score: scores[slot], because: because(slot) }));
};
