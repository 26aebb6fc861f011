// What the page shows, in one place. The true ratings are here and in the device's database, and
// nowhere else.

import { reportsOf, wholePerson } from "./device.js";
import { channelOf, posterior, priorOf, uniformResponse } from "./beliefs.js";
import { fraction, internal } from "./words.js";

export const BUDGET = { epsilon: 20, delta: 1e-6 };

export const view = {
  budget: BUDGET,
  device: null,
  part: null, // of `campaigning.js`, once this browser takes part
  shares: null, // of the newest contribution, until a rating that was kept is another
  contributed: false, // ever, though it may have stopped since
  pinned: null, // whether this deployment has campaigns; null until that is known
  scope: new Map(), // key -> place of the items of campaigns
  campaign: null,
  demo: null,
  offered: null,
  mechanisms: [],
  mechanism: null,
  levels: 5,
  ready: false,
  catalogue: [],
  films: new Map(), // by key
  items: new Map(), // by item, as text
  side: null, // what goes together in released reports
  summed: null, // what a campaign has published, with how lists are made of it
  records: [],
  byKey: new Map(),
  kept: new Map(),
  history: [],
  shown: [], // the records, or those of an example
  last: null, // that was made since the page was opened
  spent: null,
  epsilon: 0, // of the whole person, from everything together
  own: [],
  asked: null,
  askedProblem: "",
  presence: null,
  problems: new Map(),
  nameOf: (key) => view.films.get(key)?.title ?? `item ${BigInt(`0x${key}`)}`,
  titleOf: (record) => view.films.get(record.key)?.title ?? String(record.item),
};

const meanOf = (key) => {
  const slot = view.side?.slots.get(key);
  return slot === undefined ? null : view.side.ratings[slot];
};

/** A record with what can be concluded from its report. */
export const concluded = (record) => {
  const [, levels, epsilon] = record.mechanism.split(":");
  const mechanism = view.mechanisms.find(({ id }) => id === record.mechanism);
  const channel = mechanism
    ? channelOf(mechanism.counts)
    : uniformResponse(Number(levels), fraction(epsilon));
  const prior = priorOf(Number(levels), meanOf(record.key));
  return {
    ...record,
    levels: Number(levels),
    stars: internal(record.level, Number(levels)),
    channel,
    prior,
    belief: posterior(channel, prior, record.report),
  };
};

/** Whether campaigns here have one party, which reads each part that it gets. */
export const oneParty = ({ campaign, offered }) =>
  campaign ? campaign.parties === 1 : offered?.privacy_mode === "central";

/** Read the journal: the device's database is the one memory of what was rated. */
export const readJournal = async () => {
  const { records, kept, plan, campaigns } = await view.device.all();
  view.records = records.filter(({ key }) => key).map(concluded);
  view.byKey = new Map(view.records.map((record) => [record.key, record]));
  view.kept = new Map(kept.map((each) => [each.key, each]));
  const own = kept.map((each) => ({ ...each, stars: internal(each.level, each.levels) }));
  view.history = [...view.records, ...own].sort((a, b) => a.epoch - b.epoch);
  const { id } = view.records[0] ? { id: view.records[0].mechanism } : {};
  view.mechanism = view.mechanisms.find((each) => each.id === id) ?? view.mechanism;
  view.spent = (view.mechanism && (await view.device.spent(view.mechanism.id))) ?? null;
  const debits = campaigns?.debits ?? [];
  view.shares = campaigns?.shares ?? null;
  view.contributed = Boolean(campaigns?.contributions?.length);
  view.epsilon = wholePerson(plan?.counts, reportsOf(records), view.budget.delta, debits);
  view.levels = view.mechanism?.levels ?? 5;
};
