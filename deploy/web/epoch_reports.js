// `like` by epochs on an opened `Device`: ratings are kept here, and on each day the device reports
// on the items of a public scope whose turn has come, rated or not. Whether it reports on an item,
// when and with how many bytes depends on scope, pseudonym, key, budget and the hours of the page,
// never on a rating; one that comes after its item's turn is not reported.
// In Python: producers/daemon/{cells,runner}.py.

import { isOlder, keeps, OLDER, SENDING } from "./device.js";
import {
  cellsOf, certifiedLike, dueOf, everyMinute, messagesOf, momentName, momentOf,
} from "./epochs.js";
import { room } from "./privacy.js";
import { hexOf, keyOf } from "./campaign/item.js";
import { blake } from "./campaign/transcript.js";

const DAY = 86_400_000, MOST_BYTES = 128 * 1024 - 256;
const PINNED = new URL("scope.json", import.meta.url);
const refuse = (sentence) => { throw new Error(sentence); };
const bytes = (text) => new TextEncoder().encode(text);

/** The scope that the page's host pins: {rotate_every, items: [{item, key}]}. */
const scopeOf = ({ items, rotate_every: every = 1 }) => {
  const wrong = ({ item, key }) => !/^[0-9a-f]{16}$/.test(key) ||
    (typeof item === "string" && keyOf(item) !== key);
  if (!items?.length || items.some(wrong) || !(Number.isInteger(every) && every > 0))
    refuse("scope.json: give rotate_every in days, and items with the keys of GET /catalogue");
  const named = new Map(items.map(({ item, key }) => [key, item])), keys = [...named.keys()].sort();
  const digest = hexOf(blake(32, "murmurec scope", [bytes(JSON.stringify([every, keys]))]));
  const longest = Math.max(20, ...items.map(({ item }) => bytes(JSON.stringify(item)).length));
  return { named, keys, every, digest, most: Math.floor(MOST_BYTES / (longest + 3)) };
};

export class EpochReports {
  #scope;
  onchange = () => {};
  state = { problem: null }; // what the last look found

  /** Reports for a device while the page is open; what the first call finds stays its mechanism and
   *  scope. Null where the page's host pins no scope. */
  static async open(device, pinned = PINNED) {
    const reply = await fetch(pinned, { ...SENDING, cache: "no-cache" });
    if (!reply.ok) return null;
    const self = Object.assign(new EpochReports(), { device });
    self.#scope = scopeOf(await reply.json());
    await device.change((records, about) => self.#begin(records, about));
    const name = momentName((await device.all()).device.key);
    self.close = everyMinute(name, () => self.look()); // ends the looks
    return self;
  }

  async #begin(records, about) {
    const { plan, likes } = await this.device.read(records, about), { digest } = this.#scope;
    const offered = this.device.likes.map(certifiedLike);
    this.mechanism = offered.find((each) => !plan || each.id === plan.id) ?? refuse(plan
      ? keeps(plan) : "the gateway offers browsers no mechanism for reports by epochs");
    const { id } = this.mechanism;
    // A person's cells against none: one bit each, so that the budget is that of two levels.
    const bit = this.mechanism.counts.at(-1), table = { id, counts: [bit.toReversed(), bit] };
    if (plan && String(plan.counts) !== String(table.counts)) refuse(keeps(plan));
    if (likes && likes.scope !== digest)
      refuse("scope.json is not the scope that this device began with: who changes it chooses on " +
        "what the budget is spent; put it back, or forgetMe() begins a new device");
    about.put(table, "plan");
    about.put(likes ?? { since: Math.floor(Date.now() / DAY), scope: digest, rated: [] }, "likes");
  }

  /** Keeps the level of an item, from 0, or null for none, in this browser; sends nothing. */
  async keep({ key, level }) {
    const { levels } = this.mechanism;
    if (level !== null && !(Number.isInteger(level) && level >= 0 && level < levels))
      refuse(`level ${level}: ${levels} levels, from 0`);
    await this.device.change(async (records, about) => {
      const { likes } = await this.device.read(records, about);
      const rated = likes.rated.filter((each) => each.key !== key);
      if (level !== null) rated.push({ key, level });
      about.put({ ...likes, rated }, "likes");
    });
  }

  /** Looks once: draws and records what is due, one tab at a time, then sends it. */
  async look(now = Date.now()) {
    let problem = null;
    await this.device.change((records, about) => this.#draw(records, about, now))
      .then((drawn) => drawn && this.device.send())
      .catch(({ message }) => { problem = message; });
    this.state = { problem };
    this.onchange();
  }

  async #draw(store, about, now) {
    const { records, plan, campaigns, likes, rated, device } = await this.device.read(store, about);
    const { budget } = this.device, { pseudonym, key: secret } = device, { since } = likes;
    const { named, keys, every, most } = this.#scope, epoch = Math.floor(now / DAY);
    if (isOlder(records, campaigns)) refuse(OLDER);
    const newest = Math.max(since, ...records.map((record) => record.epoch));
    if (epoch < newest)
      refuse(`the clock says day ${epoch}, before the newest of this device (${newest}): nothing ` +
        "is reported until it is later; is the clock right, or was it ahead?");
    if (now < (epoch + momentOf(momentName(secret), epoch)) * DAY) return false;
    const due = new Set(dueOf({ scope: keys, every, since, epoch }));
    const before = records.flatMap((record) => record.keys);
    const reported = [...before, ...keys.filter((key) => !due.has(key))];
    const left = Math.max(0, room(plan.counts, budget, campaigns) - before.length);
    const cells = cellsOf({ scope: keys, secret, device: pseudonym, reported,
      most: room(plan.counts, budget), room: Math.min(left, most) });
    const messages = messagesOf({ mechanism: this.mechanism, rated, device: pseudonym, epoch,
      cells: cells.map((key) => ({ key, item: named.get(key) })), seq: records.length + 1 });
    for (const { seq, items, body } of messages)
      store.add({ seq, keys: items.map(({ key }) => key), mechanism: plan.id, epoch, body,
        place: null, refused: null });
    return messages.length > 0;
  }
}
