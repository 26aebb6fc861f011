// `like` by epochs: what a device reports at the end of an epoch, rated or not, so that sending
// says nothing about rating: producers/fleet/epoch_requests.py and epoch_emission.py, and
// stream_app/privacy/ratings/like.py and item_sampling.py. Nothing is recorded here:
// `epoch_reports.js` records the messages with their debit before the first is sent.

import { hexOf } from "./campaign/plan.js";
import { blake, littleEndian } from "./campaign/transcript.js";
import { itemText, sample } from "./device.js";
import { expBelow } from "./privacy.js";

const MINUTE = 60_000;
const MASK = 2n ** 64n - 1n, TOTAL = 2n ** 64n, MAX_RATINGS = 4096, TURNS = 1n;
const GOLDEN = 0x9e3779b97f4a7c15n, M1 = 0xbf58476d1ce4e5b9n, M2 = 0x94d049bb133111ebn;

/** The mechanism with its counts as BigInt, proved to satisfy the epsilon of its id for a cell: one
 *  bit, "rated and at least the threshold"; the last row is that of an item without a rating. */
export const certifiedLike = ({ id, counts }) => {
  const wrong = (what) => { throw new Error(`the table of ${id} ${what}`); };
  const parts = /^like:([1-9]\d{0,2}):([1-9]\d{0,7})(?:\/([1-9]\d{0,7}))?(?::(\d{1,3}))?$/.exec(id);
  if (!parts) throw new Error(`${id} is no mechanism that a browser can check`);
  const levels = Number(parts[1]), [a, b] = [BigInt(parts[2]), BigInt(parts[3] ?? 1)];
  const threshold = Number(parts[4] ?? Math.ceil(7 * (levels - 1) / 10));
  if (levels < 2 || levels > 255 || threshold >= levels || a > 64n * b)
    throw new Error(`${id} is no mechanism that a browser can check`);
  const written = (count) => typeof count === "string" && /^[1-9]\d{0,19}$/.test(count);
  const rows = counts?.map?.((row) => row?.map?.((count) => written(count) ? BigInt(count) : 0n));
  if (rows?.length !== levels + 1 || rows.some((row) => row?.length !== 2 || row.includes(0n)))
    wrong(`does not have ${levels + 1} rows of 2 counts above 0, as text`);
  const [change, keep] = rows[levels];
  if (keep + change !== TOTAL) wrong("does not sum to 2^64");
  const right = (v) => v >= threshold && v < levels ? [keep, change] : [change, keep];
  if (rows.some((row, v) => String(row) !== String(right(v)))) wrong("is not that of a like");
  if (keep < change || keep << 256n > change * expBelow(a, b)) wrong("protects less than it says");
  return { id, levels, threshold, counts: rows };
};

/** The name by which a device has its moments: who sees times, as a relay does, cannot match them
 *  to its pseudonym. */
export const momentName = (secret) => hexOf(blake(16, "murmurec moment", [], secret));

/** Calls `look` once a minute, at the moment of a name; returns what ends it. */
export const everyMinute = (name, look) => {
  let timer, ended = false;
  const wait = () => {
    const minute = Math.floor(Date.now() / MINUTE) + 1;
    const at = (minute + momentOf(name, minute)) * MINUTE;
    timer = setTimeout(() => look().finally(() => ended || wait()), at - Date.now());
  };
  wait();
  return () => { ended = true; clearTimeout(timer); };
};

/** When the device of a name sends in an epoch, a fraction of it, the same whatever was rated. */
export const momentOf = (device, epoch) => {
  const made = blake(8, "murmurec epoch", [bytesOf(device), littleEndian(epoch, 8)]);
  return Number(new DataView(made.buffer).getBigUint64(0, true) >> 11n) / 2 ** 53;
};

/** The keys that had their turn after the epoch `since`: each has one in `every` epochs, in which
 *  its public hash says; producers/daemon/cells.py. */
export const dueOf = ({ scope, every, since, epoch }) => scope.filter((key) => {
  const slot = Number((wordOf(BigInt(`0x${key}`), TURNS) >> 32n) * BigInt(every) >> 32n);
  return (epoch - slot) % every < epoch - since;
});

/** The keys, rising, on which a device reports: of the scope (16 hex digits each) the `most` that
 *  its own secret picks, without those that were `reported`, and as many as its budget has `room`
 *  for. No argument is a rating. */
export const cellsOf = ({ scope, secret, device, most, reported = [], room = Infinity }) => {
  const named = blake(8, "murmurec sample", [bytesOf(device)], secret), known = new Set(reported);
  const salt = new DataView(named.buffer).getBigUint64(0, true);
  const drawn = scope.map((key) => [wordOf(BigInt(`0x${key}`), salt), key]);
  const order = ([a, key], [b, other]) => (a === b ? (key < other ? -1 : 1) : a < b ? -1 : 1);
  const picked = drawn.sort(order).slice(0, most).map(([, key]) => key);
  return picked.filter((key) => !known.has(key)).slice(0, room).sort();
};

/** The messages of these cells: [{seq, items, reports, body}], shuffled, of nearly equal size.
 *
 *  mechanism: of `certifiedLike`. cells: [{key, item}], rising. rated: [{key, level}]. seq: of the
 *  first message. words: gives so many uniform 64-bit words, first those of the shuffle. */
export const messagesOf = ({ mechanism, cells, rated, device, seq, epoch, words = uniform }) => {
  const levels = new Map(rated.map(({ key, level }) => [key, level])), missing = mechanism.levels;
  const places = words(cells.length);
  const shuffled = cells.map((cell, n) => [places[n], cell])
    .sort(([a], [b]) => (a < b ? -1 : Number(a > b))).map(([, cell]) => cell);
  const lots = words(cells.length);
  const reports = shuffled.map(({ key }, n) =>
    sample(mechanism.counts, levels.get(key) ?? missing, lots[n]));
  const parts = Math.ceil(cells.length / MAX_RATINGS);
  return Array.from({ length: parts }, (_, i) => {
    const [start, end] = [i, i + 1].map((each) => Math.floor(cells.length * each / parts));
    const [items, drawn] = [shuffled, reports].map((column) => column.slice(start, end));
    const body = `{"v":1,"device":"${device}","seq":${seq + i},"mechanism":"${mechanism.id}",` +
      `"epoch":${epoch},"items":[${items.map(itemText)}],"reports":[${drawn}]}`;
    return { seq: seq + i, items, reports: drawn, body };
  });
};

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16));

const uniform = (count) => {
  const found = new BigUint64Array(count);
  for (let start = 0; start < count; start += 8192) // a call fills 65,536 bytes at most
    crypto.getRandomValues(found.subarray(start, start + 8192));
  return found;
};

const mix = (x) => {
  x = (x ^ x >> 30n) * M1 & MASK;
  x = (x ^ x >> 27n) * M2 & MASK;
  return x ^ x >> 31n;
};
const wordOf = (key, salt) => mix(mix(key + salt & MASK) + GOLDEN & MASK);
