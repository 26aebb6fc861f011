// What the server sees: its belief about each rating. The true level is known to this page alone.

import { byId, el, fill } from "./dom.js";
import { guessOf } from "./beliefs.js";
import { percent, rated, short } from "./words.js";

const rows = new Map();
let source; // the first body that the rows are of

const bars = (record) => {
  const most = Math.max(...record.belief);
  const words = record.belief
    .map((share, level) => `${rated(level, record.levels)}: ${percent(share)}`)
    .join("; ");
  return el(
    "div",
    {
      class: "bars",
      role: "img",
      "aria-label": `${words}. Clicked: ${rated(record.level, record.levels)}.`,
    },
    record.belief.map((share, level) => {
      const filled = el("i");
      filled.style.height = `${Math.max((100 * share) / Math.max(most, 0.6), 3).toFixed(1)}%`;
      return el(
        "span",
        {
          class: `bar${level === record.level ? " true" : ""}${record.example ? " nobody" : ""}`,
          title: `${rated(level, record.levels)}: ${percent(share)}`,
        },
        filled,
      );
    }),
  );
};

const row = (view, record) => {
  const guess = guessOf(record.belief);
  const right = guess === record.level;
  return el(
    "li",
    { "data-key": record.key },
    el(
      "div",
      {},
      el("p", { class: "title" }, view.titleOf(record)),
      el(
        "p",
        { class: "guess" },
        "guesses ",
        el("b", {}, short(guess, record.levels)),
        `, ${percent(record.belief[guess])} sure: `,
        el("em", { class: right ? "right" : "wrong" }, right ? "right" : "wrong"),
      ),
    ),
    bars(record),
  );
};

/** Draw the beliefs again where they changed, newest first. */
export const showBeliefs = (view) => {
  const list = byId("beliefs");
  if (source !== view.shown[0]?.body) {
    source = view.shown[0]?.body; // an example, or another device
    rows.clear();
    fill(list);
  }
  for (const record of view.shown) {
    const state = JSON.stringify([record.belief, view.titleOf(record)]);
    const earlier = rows.get(record.seq);
    if (earlier?.state === state) continue;
    const node = row(view, record);
    if (earlier) earlier.node.replaceWith(node);
    else list.prepend(node);
    rows.set(record.seq, { node, state });
  }
};
