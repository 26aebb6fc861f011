// For you: the list made here, and the server's list, side by side.

import { el, fill, say } from "./dom.js";
import { rank } from "./ranking.js";
import { listed, plural } from "./words.js";

export const LENGTH = 10;

/** The history that the ranking takes, oldest first; `stars` says which stars a record counts. */
export const historyOf = (records, stars) =>
  records.map((record, place) => ({
    key: record.key,
    stars: stars(record),
    day: record.epoch,
    place,
  }));

// A list is made again only where its table or what was rated has changed.
const made = new WeakMap(); // side -> {history, list}

const ranked = (side, history) => {
  const before = made.get(side);
  if (before?.history === history) return before.list;
  const told = historyOf(history, ({ stars }) => stars);
  const list = side.listOf ? side.listOf(told, LENGTH) : rank(side, told, LENGTH);
  made.set(side, { history, list });
  return list;
};

/** What this browser would recommend; the popular films where there is no item side. */
export const ownList = ({ summed, side, history, catalogue, byKey, kept }) =>
  (summed ?? side)
    ? ranked(summed ?? side, history)
    : catalogue
        .filter(({ key }) => !byKey.has(key) && !kept.has(key))
        .slice(0, LENGTH)
        .map(({ key }) => ({ key, because: [] }));

/** How many entries of a list are in another. */
export const shared = (list, other) => {
  const keys = new Set(other.map(({ key }) => key));
  return list.filter(({ key }) => keys.has(key)).length;
};

const entry = (view, { key, because = [], title }, mine) =>
  el(
    "li",
    { "data-key": key },
    el("span", { class: "title" }, title ?? view.nameOf(key)),
    mine?.has(key)
      ? el("span", { class: "also", title: "also in the list ranked here" }, "also yours")
      : null,
    because.length
      ? el(
          "span",
          { class: "why" },
          `goes with ${listed(because.slice(0, 2).map((reason) => view.nameOf(reason)))}`,
        )
      : null,
  );

const ownNote = (view) => {
  if (!view.summed && !view.side) return "The server has not learned enough yet. Until then: the popular films.";
  if (!view.history.length) return "The popular films, until you rate one.";
  return "From your true stars, of both tabs. Not sent to any computer.";
};

const askedNote = (view, mine) => {
  if (!view.records.length) return "The server knows nothing of you yet: the popular films.";
  if (view.askedProblem) return view.askedProblem;
  if (!view.asked) return "Asked as soon as Kafka has one of your answers.";
  const found = view.asked.filter(({ key }) => mine.has(key)).length;
  return `From your noised answers. ${found} of ${view.asked.length} are also in yours.`;
};

/** Draw both lists. */
export const showLists = (view) => {
  const own = view.own;
  const mine = new Set(own.map(({ key }) => key));
  fill(
    "own",
    own.map((item) => entry(view, item)),
  );
  say("own-note", ownNote(view));
  const popular = () => view.catalogue.slice(0, LENGTH).map(({ key }) => ({ key }));
  const asked = view.records.length ? (view.asked ?? []) : popular();
  fill(
    "asked",
    asked.map((item) => entry(view, { key: item.key, title: item.title || null }, mine)),
  );
  say("asked-note", askedNote(view, mine));
};

/** How many of your own list stay when only which films you rated is used, and not your stars. */
export const presenceOverlap = (view) => {
  if (!view.side || !view.records.length) return null;
  const [seen, blind] = [({ stars }) => stars, () => null].map((stars) =>
    rank(view.side, historyOf(view.records, stars), LENGTH),
  );
  return { same: shared(seen, blind), of: seen.length };
};

export const presenceWords = ({ same, of }) =>
  `${same} of your ${plural(of, "recommended film")} are the same when only which films you rated ` +
  "is used, and none of your stars.";
