// A device in a browser: it draws a report of a rating here, records it, and sends the record.
// The raw level stays in this module, the page's own variables and IndexedDB.
// The gateway is not trusted: what it hands out is certified before anything is drawn.

import { certified, room, wholePerson } from "./privacy.js";
import { isOwn, pseudonym, tagged } from "./tag.js";
export { certified, isOwn, pseudonym, room, tagged, wholePerson };

const DAY = 86_400_000, STORES = ["records", "about"];
export const SENDING = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" };
const send = (...request) => fetch(...request); // or `relayed` of relay.js
const refuse = (sentence) => { throw new Error(sentence); };
// Storage that was put back draws again under used numbers, or contributes again to a stage, which
// only a gateway finds (409), among the 65,536 newest messages since its start; between two plans
// nobody does. Deleted storage is a new device, which nobody finds.
export const OLDER = "another message of this device stands where this one would: its storage is " +
  "an older copy, which would spend a spent budget again: nothing is drawn or sent; forgetMe() " +
  "begins a new device, and what both cost adds up";
export const isOlder = (records, campaigns) =>
  campaigns?.older || records.some(({ older }) => older);
export const keeps = ({ id }) =>
  `this device keeps ${id} and the table it began with: other ones need a new device`;
/** How many items were reported: a record of an epoch has many (`epoch_reports.js`). */
export const reportsOf = (records) => records.reduce((n, { keys }) => n + (keys?.length ?? 1), 0);

/** The report of a level for one uniform 64-bit word: the first z with word < c[0] + .. + c[z]. */
export const sample = (counts, level, word) => {
  let report = 0, end = 0n;
  for (const count of counts[level]) { end += BigInt(count); report += Number(word >= end); }
  return report;
};

// An integer id may exceed what a number of JavaScript holds, so it is read from its key.
export const itemText = ({ item, key }) =>
  typeof item === "string" ? JSON.stringify(item) : String(BigInt(`0x${key}`));
/** The bytes of one report on the wire, those of stream_app/wire/events.py `encode_json`. */
export const eventBody = ({ device, seq, mechanism, epoch, report, ...named }) =>
  `{"v":1,"device":"${device}","seq":${seq},"mechanism":"${mechanism}","epoch":${epoch},` +
  `"items":[${itemText(named)}],"reports":[${report}]}`;

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = request.oncomplete = () => resolve(request.result);
  request.onerror = request.onabort = ({ target }) =>
    reject(target.error ?? new Error("the change was cancelled"));
});
const unavailable = ({ message }) =>
  refuse(`this browser's storage is not available, so nothing was drawn or sent: ${message}`);

export class Device {
  #database; #timer; #channel;
  onchange = () => {}; // also of what another tab did
  state = { sent: 0, waiting: 0, problem: null }; // what `send` found last

  /** Opens this browser's one device: key and journal in IndexedDB. `budget` is for all reports. */
  static async open({ gateway = "", database = "murmurec", budget, fetch = send } = {}) {
    if (!globalThis.crypto?.subtle || !navigator.locks)
      refuse("this page is no secure context: open it by https, or from this machine");
    const self = Object.assign(new Device(), { gateway, database, fetch });
    self.budget = budget ?? { epsilon: 20, delta: 1e-6 };
    const key = crypto.getRandomValues(new Uint8Array(32));
    const fresh = { key, pseudonym: await pseudonym(key, "me") };
    self.#database = await self.#connected().catch(unavailable);
    self.#database.onversionchange = () => self.#database.close(); // another tab forgets
    ({ pseudonym: self.pseudonym } = await self.change(async (records, about) =>
      await done(about.get("device")) ?? (about.put(fresh, "device"), fresh)));
    await self.#fetchMechanisms();
    navigator.storage?.persist?.().catch(() => {});
    self.#channel = new BroadcastChannel(database);
    self.#channel.onmessage = () => self.onchange();
    addEventListener("online", () => self.#sendLater(0));
    self.#sendLater(0);
    return self;
  }

  async #connected() {
    const opening = indexedDB.open(this.database, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore("records", { keyPath: "seq" });
      opening.result.createObjectStore("about");
    };
    return done(opening);
  }

  /** Runs `step` in one transaction, one at a time over all tabs; its result once that is on disk.
   *  What `step` throws is thrown, and nothing of the transaction is kept. */
  async change(step) {
    let refused, result;
    try {
      const change = this.#database.transaction(STORES, "readwrite", { durability: "strict" });
      const ended = done(change);
      result = step(...STORES.map((name) => change.objectStore(name))).catch((problem) => {
        refused = problem;
        try { change.abort(); } catch { /* it is over already */ }
      });
      await ended;
    } catch (problem) {
      if (refused && !(refused instanceof DOMException)) throw refused;
      unavailable(refused ?? problem);
    }
    return result;
  }

  async #fetchMechanisms() { // without the gateway, those it handed out last
    const usable = (like, found) => (found?.allowed ?? []).filter((each) =>
      each.in_browser && (each.family === "like") === like);
    const checked = (found) => usable(false, found).map(certified);
    const fresh = await this.fetch(`${this.gateway}/mechanisms`,
      { ...SENDING, signal: AbortSignal.timeout(10_000) })
      .then((reply) => reply.ok ? reply.json() : null).catch(() => null);
    if (fresh) checked(fresh);
    const found = await this.change(async (_, about) =>
      fresh ? (about.put(fresh, "mechanisms"), fresh) : done(about.get("mechanisms")));
    const mechanisms = checked(found), named = mechanisms.find(({ id }) => id === found.default);
    Object.assign(this, { mechanisms, default: (named ?? mechanisms[0])?.id,
      likes: usable(true, found) }); // which `epoch_reports.js` proves
  }

  /** Draws and records one report; then sends it. Throws Error where it is refused: nothing drawn.
   *  The mechanism and table of the first record stay, since the cost of others does not add up. */
  async rate({ item, key, level, mechanism = this.default }) {
    const found = this.mechanisms.find(({ id }) => id === mechanism);
    if (!found) refuse(`the gateway does not offer ${mechanism} to browsers for single ratings`);
    if (!Number.isInteger(level) || level < 0 || level >= found.levels)
      refuse(`level ${level}: ${found.levels} levels, from 0`);
    const { id, counts } = found, name = itemText({ item, key });
    const record = await this.change(async (records, about) => {
      const before = await done(records.getAll()), plan = await done(about.get("plan")) ?? found;
      const campaigns = await done(about.get("campaigns")), kept = await done(about.get("kept"));
      const held = room(counts, this.budget, campaigns);
      if (isOlder(before, campaigns)) refuse(OLDER);
      if (plan.id !== id || String(plan.counts) !== String(counts)) refuse(keeps(plan));
      if (before.some((other) => other.key === key || itemText(other) === name))
        refuse("this item is rated already: a rating is reported once");
      if (before.length >= held) refuse(`the budget holds ${held} reports of ${id}: all are spent`);
      const [word] = crypto.getRandomValues(new BigUint64Array(1));
      const drawn = { seq: before.length + 1, item, key, level, mechanism: id,
        report: sample(counts, level, word), epoch: Math.floor(Date.now() / DAY) };
      const body = eventBody({ device: this.pseudonym, ...drawn });
      if (campaigns?.shares && kept?.some((each) => each.key === key)) // they show what it was
        about.put({ ...campaigns, shares: null }, "campaigns");
      about.put(plan, "plan");
      records.add({ ...drawn, body, place: null, refused: null });
      return { ...drawn, body, place: null, refused: null };
    });
    this.changed();
    this.#sendLater(0);
    return record;
  }

  #sendLater(seconds) { // `send` fails where storage does alone, which the next call will say
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.send().catch(() => {}), 1000 * seconds);
  }

  /** Tells this page and the other tabs that the journal has changed. */
  changed() {
    this.#channel.postMessage("changed");
    this.onchange();
  }

  /** Sends what is not acknowledged, oldest first, the recorded bytes: {sent, waiting, problem}.
   *  One tab sends at a time; where the gateway takes nothing now, the same bytes go later. */
  send() {
    return navigator.locks.request(`${this.database} sends`, async () => {
      const { records, campaigns, device } = await this.all();
      const older = isOlder(records, campaigns);
      const open = records.filter(({ place, refused }) => !place && !refused);
      let problem = older ? OLDER : null, sent = 0, outcome, later;
      for (const record of older ? [] : open) {
        ({ outcome, later, problem = null } = await this.#post(record.body, device.key));
        if (!outcome) { this.#sendLater(later); break; }
        await this.change(async (records) => records.put({ ...record, ...outcome }));
        sent++;
        if (outcome.older) { problem = OLDER; break; }
      }
      const changed = sent || problem !== this.state.problem;
      this.state = { sent, waiting: open.length - sent, problem };
      if (changed) this.changed(); // or two tabs would wake each other without an end
      return this.state;
    });
  }

  async #post(body, key) {
    const sending = { ...SENDING, method: "POST", body, signal: AbortSignal.timeout(60_000) };
    const type = await tagged(key, "/reports", "application/json", body);
    try {
      const reply = await this.fetch(`${this.gateway}/reports`,
        { ...sending, headers: { "Content-Type": type } });
      const { error, partition, offset, held } = await reply.json();
      if (reply.ok) return { outcome: { place: { partition, offset } } };
      if (reply.status === 409)
        return { outcome: { refused: error, older: await isOwn(key, "/reports", held, body) } };
      if ([400, 413, 415].includes(reply.status)) return { outcome: { refused: error } };
      const later = Math.min(Math.max(1, reply.headers.get("Retry-After") || 5) || 5, 600);
      return { later, problem: error };
    } catch {
      return { later: 5, problem: "the gateway cannot be reached" };
    }
  }

  /** The records, oldest first. */
  records() { return this.change((records) => done(records.getAll())); }

  /** {records, plan, campaigns, device, likes, kept, rated} on disk; `kept`: and not reported. */
  all() { return this.change(this.read); }
  async read(records, about) { // in a transaction
    const of = (name) => done(about.get(name)), reports = await done(records.getAll());
    const likes = await of("likes"), first = likes?.rated ?? reports;
    const known = new Set(first.map(({ key }) => key));
    const kept = (await of("kept") ?? []).filter(({ key }) => !known.has(key));
    return { records: reports, plan: await of("plan"), campaigns: await of("campaigns"),
      device: await of("device"), likes, kept, rated: [...first, ...kept] };
  }

  /** What this person spent, and how many reports are left: {reports, epsilon, left}. */
  async spent(mechanism = this.default) {
    const { records, plan, campaigns } = await this.all(), reports = reportsOf(records);
    const { counts } = plan ?? this.mechanisms.find(({ id }) => id === mechanism) ?? {};
    return counts && { reports,
      epsilon: wholePerson(counts, reports, this.budget.delta, campaigns?.debits),
      left: Math.max(0, room(counts, this.budget, campaigns) - reports) };
  }

  /** Deletes key and journal. The next device is new to the server; what both cost adds up. */
  async forgetMe() {
    clearTimeout(this.#timer);
    this.#database.close();
    await done(indexedDB.deleteDatabase(this.database));
    this.#channel.postMessage("forgotten");
  }
}
