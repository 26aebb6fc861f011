// The headline and the three facts at the top of the page, each true of the tab that is open; and
// what a list is worth: measured, beside popular films.

import { byId, el, fill, say, size } from "./dom.js";
import { oneParty } from "./view.js";
import { fraction, number, oneIn, times } from "./words.js";

const SIMPLE = "Quality is measured in the demo and on the board.";
const exact = (value) => value.toFixed(3);

const takesPart = ({ part, contributed }) => Boolean(part?.state.on || contributed);

const HEADLINES = {
  yours: (view) =>
    !view.pinned
      ? "Rate films. What you rate here stays with you."
      : takesPart(view)
        ? "What you rate here leaves only in your part of a sum."
        : "What you rate here stays here until you take part.",
  reports: ({ mechanism }) =>
    mechanism
      ? "Rate films. Each click sends the film and an answer with noise."
      : "Single reports. Nothing is sent from this tab.",
  operators: () => "What everybody sends. Nothing of yours leaves from this tab.",
};

const leavesOther = (view, tab) =>
  (tab === "reports" && view.mechanism
    ? "At each click: the film, the day, and an answer with noise in place of your stars, under " +
      "this pseudonym, from this address; then a query for its list."
    : "Nothing from this tab.") +
  (view.part?.state.on ? " When a stage opens, your part in the sum, too." : "");

const leaves = (view) => {
  const { pinned } = view;
  if (pinned && oneParty(view))
    return "A vector of your ratings, if you take part: the one party that gets it can read it. " +
      "Only everybody’s sum, with noise, becomes public.";
  if (pinned)
    return "Two random vectors, if you take part: alone they say nothing. " +
      "Only everybody’s sum, with noise, becomes public.";
  const more = view.mechanism ? " From the next one, answers with noise." : "";
  return `Nothing from this tab.${more}`;
};

const worth = ({ demo, status }) => {
  const { here, popular } = demo?.quality ?? {};
  if (Number.isFinite(here))
    return `A list scores ${exact(here)} (1 is perfect); popular films ${exact(popular)}.`;
  if (Number.isFinite(status?.ndcg) && Number.isFinite(status.ndcg_popular))
    return (
      `Measured now (1 is perfect): ${exact(status.ndcg)}; ` +
      `popular films: ${exact(status.ndcg_popular)}.`
    );
  return SIMPLE;
};

const costs = ({ pinned, campaign, mechanism }) => {
  if (pinned && campaign) {
    const epsilon = fraction(campaign.epsilon);
    return (
      `Epsilon ${number(epsilon, 2)} a campaign: what becomes public is at most ${times(epsilon)} ` +
      `times likelier with your ratings than without, but for a chance of ${oneIn(campaign.delta)}.`
    );
  }
  if (pinned || !mechanism) return "Nothing, until you take part.";
  return (
    `Nothing in this tab. In the next one, an answer is at most ` +
    `${times(fraction(mechanism.epsilon))} times likelier after one click than after another.`
  );
};

const costsOther = ({ mechanism }, tab) =>
  tab === "reports" && mechanism
    ? `An answer is at most ${times(fraction(mechanism.epsilon))} times likelier after one click ` +
      "than after another; answers add up. That you rated a film is public."
    : "Nothing in this tab.";

/** Write the headline and the facts of a tab. */
export const showFacts = (view, tab) => {
  const own = tab === "yours";
  say("headline", HEADLINES[tab](view));
  say("fact-leaves", !own ? leavesOther(view, tab)
    : view.offered ? leaves(view) : "Nothing, unless you say so.");
  say("fact-worth", worth(view));
  say("fact-costs", !own ? costsOther(view, tab)
    : view.offered ? costs(view) : "Nothing, until you take part.");
};

const bar = (words, value, shown, most, kind) =>
  el(
    "div",
    { class: "share" },
    el("p", {}, words, el("b", {}, shown)),
    el("div", { class: "track" }, size(el("i", { class: kind }), "width", value / most)),
  );

const both = ({ here, popular }) => {
  const most = Math.max(here, popular, 1e-9);
  return [
    bar("Ranked here", here, exact(here), most, "own"),
    bar("Popular films", popular, exact(popular), most, "grey"),
  ];
};

let drawn = "";

/** Draw what lists are worth, where a demo has measured it. */
export const showQuality = ({ demo, status, pinned }) => {
  const alone = pinned === false; // without campaigns it stands where the part would
  const home = byId(alone ? "part" : "list");
  if (byId("quality").parentNode !== home) home.append(byId("quality"));
  byId("list").classList.toggle("alone", alone);
  const quality = demo?.quality;
  const state = JSON.stringify([quality, worth({ demo, status })]);
  if (state === drawn) return;
  drawn = state;
  if (!quality) {
    fill(
      "quality",
      el("h3", {}, "How good such lists are"),
      el("p", { class: "quiet" }, worth({ demo, status })),
    );
    return;
  }
  const { k = 10, users, error } = quality;
  fill(
    "quality",
    el("div", {}, el("h3", {}, "How good such lists are"), both(quality)),
    el(
      "p",
      { class: "quiet" },
      `nDCG@${k}: how well lists foretell what ${number(users)} people of the demo like next. ` +
        `Here minus popular: ± ${exact(error)} (standard error).`,
    ),
  );
};
