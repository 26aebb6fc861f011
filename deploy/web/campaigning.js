// Campaigns in a browser: the device looks once a minute, at a moment that its key and the minute
// give, and contributes once to each stage. Whether, when and with how many bytes depends on plans,
// key, budget and the hours of the page, never on a rating: without ratings it sends zeros, and a
// contribution is recorded a second after the look, or what it took longer to compute would show.
// The page's host is trusted with this code and with what is pinned; the gateway with neither.
// In Python: producers/daemon/scheduled_contributions.py, producers/person/pace.py.

import { isOlder, isOwn, OLDER, reportsOf, SENDING, tagged } from "./device.js";
import { everyMinute, momentName } from "./epochs.js";
import { heldBy, mostThatFit, wholePerson } from "./privacy.js";
import { contribution } from "./campaign/contribution.js";
import { decodePlan } from "./campaign/plan.js";
import { check, costOf } from "./campaign/terms.js";

const PAUSE = 1000, DAY = 86_400_000, DAYS = 30, SHARE = 3 / 4, PART = 1 / 12;
const FINAL = ["contribution", "contributed", "no_campaigns", "signed", "stage"];
const NONE = { on: false, held: 0, debits: [], contributions: [] };
const PINNED = new URL("pinned.json", import.meta.url);
const levelsOf = ({ rated }) => rated.map(({ key, level }) => `${key} ${level}`);
const refuse = (sentence) => { throw new Error(sentence); };

/** The first day from `today` on at which share and pace hold one more campaign {square, size}
 *  beside the debits [{square, size, epoch}]: 3/4 of the budget, and a twelfth of that or one
 *  campaign in any 30 days. Undefined: no day. */
export const paced = (budget, debits, cost, today) => {
  const part = ({ square, size }) => 1 / (mostThatFit((n) => wholePerson(null, 0, budget.delta,
    n ? [{ square: n * square, size: n * size }] : []) <= budget.epsilon) || 1);
  const each = part(cost), paid = debits.map((debit) => ({ day: debit.epoch, part: part(debit) }));
  const left = (most, since) => paid.reduce((sum, { day, part }) =>
    sum - (day > since ? part : 0), Math.max(most, each)) / each > 1 - 1e-9;
  const days = paid.map(({ day }) => day + DAYS).filter((day) => day > today);
  return [today, ...days.sort((a, b) => a - b)].find((day) =>
    left(SHARE, -Infinity) && left(SHARE * PART, day - DAYS));
};

/** The journal of campaigns with the debit of this one, paid once for a plan; Error where pace or
 *  budget do not hold it, or the journal is an older copy. */
const paid = (budget, { records, plan: table, campaigns = NONE }, plan) => {
  if (isOlder(records, campaigns)) refuse(OLDER);
  const { debits } = campaigns, before = reportsOf(records);
  if (debits.some((debit) => debit.plan === plan.digest)) return campaigns;
  const size = plan.stages.reduce((sum, stage) => sum + stage.size, 0);
  const today = Math.max(Math.floor(Date.now() / DAY), ...debits.map(({ epoch }) => epoch));
  const debit = { plan: plan.digest, square: costOf(plan.stages), size, epoch: today };
  // Reports before the first campaign were planned exactly, for themselves alone.
  const held = debits.length ? campaigns.held : before ? heldBy(table.counts, budget) : 0;
  const all = [...debits, debit];
  if (!(wholePerson(table?.counts, before, budget.delta - held, all) <= budget.epsilon))
    refuse(`the budget of epsilon ${budget.epsilon} does not hold campaign ${plan.number} ` +
      `(epsilon ${plan.epsilon}) beside what is spent: nothing was contributed`);
  const day = paced(budget, debits, debit, today);
  if (day !== today)
    refuse(`campaign ${plan.number} is beyond the pace, 1/16 of the budget in ${DAYS} days: ` +
      `nothing was contributed; ${day ? `from ${dateOf(day)} on it fits` : "the share is spent"}`);
  return { ...campaigns, held, debits: all };
};
const dateOf = (day) => new Date(day * DAY).toISOString().slice(0, 10);

const found = ({ campaigns = NONE }, plan, stage) => campaigns.contributions.find((each) =>
  each.plan === plan.digest && each.stage === stage);

export class Campaigning {
  #pinned;
  onchange = () => {};
  state = { on: false, campaign: null, problem: null };

  /** Takes part for an opened `Device` while the page is open; `on` is kept by `takePart`. Null
   *  where the page's host pins no parties. */
  static async open(device, pinned = PINNED) {
    const reply = await fetch(pinned, { ...SENDING, cache: "no-cache" });
    if (!reply.ok) return null;
    const self = Object.assign(new Campaigning(), { device });
    self.#pinned = await reply.json();
    const name = momentName((await device.all()).device.key);
    self.close = everyMinute(name, () => self.look()); // ends the looks
    await self.#alone(() => self.#read(), () => self.#send()); // what a former page has recorded
    return self;
  }

  /** Whether this device takes part from now on; kept with its journal. */
  async takePart(on) {
    await this.#change((campaigns) => ({ ...campaigns, on }));
    await this.#alone();
  }

  #change(step) {
    return this.device.change(async (records, about) => {
      const all = await this.device.read(records, about);
      about.put(step(all.campaigns ?? NONE, all), "campaigns");
    });
  }

  /** Looks once, one tab at a time: contributes where a stage is open, then sends what waits. */
  look() { return this.#alone(() => this.#contribute(), () => this.#send()); }

  #alone(...steps) {
    return navigator.locks.request(`${this.device.database} contributes`, async () => {
      this.state = { ...this.state, problem: null };
      for (const step of [...steps, () => this.#shown()])
        await step().catch(({ message }) => { this.state.problem ??= message; });
      this.onchange();
    });
  }

  async #shown() {
    const all = await this.device.all(), { campaign } = this.state;
    const sent = campaign && found(all, campaign.plan, campaign.stage);
    const { on = false, contributions = [] } = all.campaigns ?? {};
    const { body, ...own } = contributions.at(-1) ?? {}; // the newest of this device
    const before = contributions.findLast(({ plan, place }) => place && plan !== own.plan)?.number;
    this.state = { ...this.state, on, sent: Boolean(sent?.place),
      own: own.plan ? { ...own, waiting: Boolean(body), before } : null };
  }

  async #get(path) {
    const sending = { ...SENDING, cache: "no-cache", signal: AbortSignal.timeout(60_000) };
    const reply = await this.device.fetch(`${this.device.gateway}${path}`, sending)
      .catch(() => refuse("the gateway cannot be reached"));
    if (reply.status === 204 || reply.status === 404) return null;
    if (reply.ok) return reply;
    const { error } = await reply.json().catch(() => ({}));
    return refuse(error ?? `the gateway answers ${reply.status}`);
  }

  /** The plan that was checked, and its stage; null where no campaign is shown. */
  async #read() {
    const status = await (await this.#get("/campaign"))?.json();
    this.state.campaign = null;
    if (!status) return null;
    const plan = decodePlan(Uint8Array.from(atob(status.plan), (letter) => letter.charCodeAt(0)));
    check(plan, this.#pinned);
    const { stage, phase, notice } = status;
    if (stage !== null && !(Number.isInteger(stage) && plan.stages[stage]))
      refuse(`the gateway names no stage of campaign ${plan.number}`);
    return this.state.campaign = { plan, stage, phase, notice };
  }

  async #contribute() {
    const { plan, stage, phase, notice } = await this.#read() ?? {};
    if (phase !== "open" || stage === null) return;
    const began = performance.now();
    const { notice_seconds = DAY / 1000 } = this.#pinned; // the gateway is believed its times
    const before = await this.device.all(), { pseudonym: device, budget } = this.device;
    if (!before.campaigns?.on || found(before, plan, stage)) return;
    if (!(notice >= notice_seconds))
      refuse(`campaign ${plan.number} was not public for ${notice_seconds / 3600} h before it ` +
        "opened: nothing was contributed");
    paid(budget, before, plan); // before anything is computed
    const { device: { key: secret } } = before;
    const levels = Number(before.plan?.id.split(":")[1] ?? 5);
    const scaled = (level, own) => own ? Math.round(level * (levels - 1) / (own - 1)) : level;
    const rated = before.rated.map(({ key, level, levels: own }) =>
      ({ key, level: scaled(level, own) }));
    const { body, shares } =
      await contribution({ plan: { ...plan, levels }, stage, device, rated, secret });
    await new Promise((later) => setTimeout(later, began + PAUSE - performance.now()));
    // Another tab may have rated, or the person may have stopped, since.
    await this.#change((campaigns, now) => {
      if (!campaigns.on || found(now, plan, stage)) return campaigns;
      const made = { plan: plan.digest, number: String(plan.number), stage,
        of: plan.stages.length, body, place: null, refused: null };
      const { contributions, ...rest } = paid(budget, now, plan);
      const still = new Set(levelsOf(now));
      const shown = levelsOf(before).every((each) => still.has(each)) ? shares : null;
      return { ...rest, shares: shown, contributions: [...contributions, made] };
    });
  }

  async #send() {
    const { records, campaigns = NONE, device } = await this.device.all();
    if (isOlder(records, campaigns)) refuse(OLDER);
    if (!campaigns.on) return;
    for (const each of campaigns.contributions.filter(({ place, refused }) => !place && !refused)) {
      const outcome = await this.#post(each.body, device.key);
      await this.#change((now) => ({ ...now, older: outcome.older || now.older,
        contributions: now.contributions.map((one) =>
          one.plan === each.plan && one.stage === each.stage ? { ...one, ...outcome } : one) }));
      if (outcome.older) refuse(OLDER);
    }
  }

  async #post(body, key, path = "/contributions") {
    const sending = { ...SENDING, method: "POST", body, signal: AbortSignal.timeout(60_000),
      headers: { "Content-Type": await tagged(key, path, "application/octet-stream", body) } };
    const reply = await this.device.fetch(`${this.device.gateway}${path}`, sending)
      .catch(() => refuse("the gateway cannot be reached: the same bytes are sent again"));
    const { error, reason, partition, offset, held } = await reply.json().catch(() => ({}));
    if (reply.status === 202 && Number.isInteger(partition))
      return { place: { partition, offset }, body: null };
    if (FINAL.includes(reason)) // else it may be the page of something in between
      return { refused: error, older: await isOwn(key, path, held, body), body: null };
    return refuse(error ?? `no gateway answers there (${reply.status}): the same bytes go later`);
  }
}
