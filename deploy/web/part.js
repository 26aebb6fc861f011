// This browser's part in a campaign: what leaves, what it costs the person as a whole, how far it
// is. The contribution itself is made by `campaigning.js`, which is loaded when it is wanted.

import { byId, el, fill, say, svg } from "./dom.js";
import { oneParty } from "./view.js";
import { fraction, number, oneIn, plural, sentence, times } from "./words.js";

const STAGES = ["sent", "stored", "counted", "released"];
const AFTER = { counted: ["counted", "released"], released: ["released"] };

/** How many stages the newest contribution has passed, as the public log says. */
export const passed = (own, campaign) => {
  if (!own?.place) return 0;
  if (!campaign) return 2;
  const [mine, newest] = [Number(own.number), Number(campaign.number)];
  if (newest > mine || (newest === mine && campaign.stage > own.stage)) return 4;
  if (newest < mine || campaign.stage !== own.stage) return 2;
  const { phase } = campaign;
  return AFTER.released.includes(phase) ? 4 : AFTER.counted.includes(phase) ? 3 : 2;
};

/** Whether all that this browser can add to its campaign was released: a newer one is shown, or
 *  the last stage is out. */
export const finished = (own, campaign) =>
  passed(own, campaign) === 4 &&
  (Number(campaign.number) > Number(own.number) || own.stage === own.of - 1);

const aborted = (own, campaign) =>
  own && campaign?.phase === "aborted" && Number(own.number) === Number(campaign.number);

const intro = (view) => {
  const { pinned, offered } = view;
  if (pinned === null) return ["Looking for campaigns."];
  if (offered?.silent)
    return ["The gateway does not answer. Load this page again to look for campaigns."];
  if (!pinned)
    return [
      "Nothing is sent from here: this deployment takes no campaigns. ",
      el("code", {}, "murmurec demo --mode split"),
      " shows one: your browser adds its ratings to a noisy sum over everybody.",
    ];
  const bound = (others) =>
    ` Epsilon bounds what ${others} can tell, even whether you rated at all.`;
  if (oneParty(view))
    return [
      "It goes to one party, which can read it, and adds everybody’s and noise; you trust that party.",
      bound("anybody else"),
    ];
  if (view.part?.state.own) // the vectors below say the rest
    return ["Both parties together could read your part; epsilon bounds what the server can " +
      "tell, even whether you rated at all."];
  return [
    "Your browser makes two random vectors of your ratings, one for each of two parties (if both " +
      "joined against you, they could read yours).",
    el("span", { class: "roomy" }, " Each adds up everybody’s and adds noise; only together do " +
      "the two give the sum."),
    bound("the server"),
  ];
};

const cost = ({ campaign, epsilon, budget }) => {
  const rounded = number(Math.ceil(10 * epsilon - 1e-6) / 10, 1);
  const spent = epsilon
    ? el("p", {}, `Spent by you, both tabs: ε\u00a0${rounded} of ${number(budget.epsilon)}.`)
    : null;
  if (!campaign) return el("div", { class: "quiet" }, spent);
  const one = fraction(campaign.epsilon);
  return [
    el("div", { class: "price" }, el("p", { class: "big" }, `ε ${number(one, 2)}`),
      el("div", { class: "quiet" }, el("p", {}, "a campaign, for you as a whole"), spent)),
    el("p", { class: "quiet roomy" }, // a fact above says it too
      `Whatever becomes public is at most ${times(one)} times likelier with your ratings than ` +
      `with none, but for a chance of ${oneIn(campaign.delta)} (delta).`),
  ];
};

const words = ({ part, campaign, joining }) => {
  const { on, own, problem } = part?.state ?? {};
  if (joining) return "Making your contribution: some seconds of arithmetic in this browser.";
  if (own?.refused) return `Refused: ${sentence(own.refused)}`;
  if (aborted(own, campaign))
    return "The stage was ended without a sum: too few took part, or a party was away.";
  if (passed(own, campaign) === 4 && Number(campaign.number) > Number(own.number))
    return `Your part counted in campaign ${own.number}. Campaign ${campaign.number} is under way.`;
  if (problem) return sentence(problem);
  if (own?.before) return `Your part counted in campaign ${own.before} too.`;
  if (!on || own?.waiting) return "";
  if (!own || (finished(own, campaign) && campaign?.phase !== "open"))
    return campaign
      ? "You take part: your browser adds its part when a stage opens."
      : "You take part. No campaign is under way.";
  return "";
};

const publicWords = (view) => {
  const { pinned, contributed, records } = view;
  const reports = records.length
    ? ` And ${plural(records.length, "answer")} with noise, of the other tab.`
    : "";
  if (!contributed)
    return (
      `nothing but that this address opened the page.${reports}` +
      (pinned ? " Once you take part: that you did." : "")
    );
  return (
    "nothing but that you took part: when, under this pseudonym, from this address. Without a " +
    `rating yours would look the same${oneParty(view) ? ", but to the one party" : ""}.${reports}`
  );
};

const showStages = ({ part, campaign }) => {
  const own = part?.state.own;
  if (!own || own.refused) return fill("part-stages");
  const done = passed(own, campaign);
  const more = {
    sent: `campaign ${own.number}${own.of > 1 ? `, stage ${own.stage + 1} of ${own.of}` : ""}`,
    stored: own.place && `partition ${own.place.partition}, offset ${own.place.offset}`,
    counted: done >= 3 && campaign.contributions && campaign.phase !== "open" &&
      Number(campaign.number) === Number(own.number)
      ? `of ${plural(campaign.contributions, "contribution")}` : null,
    released: done === 4 ? "the sum, with noise" : null,
  };
  fill(
    "part-stages",
    el("ol", { class: "stages" }, STAGES.map((name, n) =>
      el("li", { class: n < done ? "done" : n === done ? "next" : null, "data-stage": name },
        el("b", {}, name), el("span", { class: "unseen" }, n < done ? ": done" : ": not yet"),
        more[name] ? el("small", {}, ` ${more[name]}`) : null))),
  );
};

const strip = (values, colour, label) =>
  svg("svg", { viewBox: `0 0 ${values.length} 24`, preserveAspectRatio: "none",
    class: `strip ${colour}`, role: "img", "aria-label": label },
    values.map((value, n) => value
      ? svg("rect", { x: n, width: 0.8, y: value > 0 ? 24 - 24 * value : 0,
        height: 24 * Math.abs(value) }) : null));

let shown = null;

/** What a person without a rating sends: any number, and its opposite modulo p. */
const nobodys = () => {
  const a = [...crypto.getRandomValues(new Uint32Array(160))].map((each) => each / 2 ** 32);
  return { a, b: a.map((each) => 1 - each), vector: a.map(() => 0) };
};

/** The two vectors, number for number as they were sealed, and what they add up to. */
const showShares = (view) => {
  const { part, pinned, campaign } = view;
  const { own } = part?.state ?? {}, example = !own && pinned && campaign?.parties === 2;
  const shares = example ? nobodys() : own && view.shares;
  const state = own ? `${own.plan} ${own.stage} ${Boolean(shares)}` : String(example);
  if (state === shown) return;
  shown = state;
  byId("part-shares").classList.toggle("nobodys", example);
  if (!shares)
    return fill("part-shares", own && !oneParty(view)
      ? el("p", {}, "What was sent is not kept here any more: since then you changed a rating.")
      : null);
  const most = Math.max(...shares.vector.map(Math.abs), 1), count = shares.vector.length;
  const row = (name, note, values, colour) =>
    el("div", {}, el("p", {}, el("b", {}, name), ` ${note}`),
      strip(values, colour, `${name}: ${count} numbers`));
  fill(
    "part-shares",
    example
      ? el("p", { class: "example" }, "An example, nobody’s: of a person without ratings.")
      : null,
    row("To party a:", "random numbers", shares.a, "a"),
    row("To party b:", "random numbers", shares.b, "b"),
    row("Both together:", example ? "zeros" : "your vector, which only this browser has",
      shares.vector.map((each) => each / most), "own"),
    el(
      "p",
      { class: "quiet roomy" },
      `${count} numbers of what was sealed for each. Each vector alone is uniformly ` +
        "random; the parties add everybody’s before they put the two together.",
    ),
  );
};

let before = "";

/** Draw the part. */
export const showPart = (view) => {
  const { part, pinned, ready, joining, campaign, epsilon } = view;
  const state = JSON.stringify([pinned, campaign, epsilon, Boolean(part?.state.own)]);
  if (state !== before) {
    before = state;
    fill("part-body", el("p", {}, intro(view)), pinned ? cost(view) : null);
  }
  const on = Boolean(part?.state.on);
  say("part-title", pinned === false ? "What leaves" : "Your part in the sum");
  byId("take-part").hidden = !pinned || on || !ready;
  byId("take-part").disabled = Boolean(joining);
  byId("stop-part").hidden = !on;
  say("part-words", words(view));
  say("part-public", publicWords(view));
  showStages(view);
  showShares(view);
};
