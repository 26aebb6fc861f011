// The attacker: best guesses from what the server has, and from which films were rated.

import { byId, el, fill, size, svg } from "./dom.js";
import { expectedRight, guesses, uniformResponse } from "./beliefs.js";
import { presenceWords } from "./lists.js";
import { fraction, number, percent, times } from "./words.js";

const bar = (words, share, kind, beside) =>
  el(
    "div",
    { class: "share" },
    el("p", {}, words, el("b", {}, ` ${beside}`)),
    el("div", { class: "track" }, size(el("i", { class: kind }), "width", share)),
  );

const HEIGHT = 190,
  LEFT = 44,
  RIGHT = 16,
  TOP = 12,
  BOTTOM = 44;
const MOST = 6;
let width = 520; // of the drawing, in pixels of the page
const at = (epsilon) => LEFT + ((width - LEFT - RIGHT) * epsilon) / MOST;
const up = (share) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share;

/** The expected share of right guesses about these films, by epsilon. */
const curve = (view, priors, levels) => {
  width = Math.max(byId("guesses").clientWidth, 280);
  const mean = (epsilon) => {
    const channel = uniformResponse(levels, epsilon);
    return priors.reduce((sum, prior) => sum + expectedRight(channel, prior), 0) / priors.length;
  };
  const points = Array.from({ length: 41 }, (_, n) => (n * MOST) / 40);
  const own = fraction(view.mechanism.epsilon);
  const label =
    `An attacker is right about ${percent(mean(0))} of these films without answers, ` +
    `and ${percent(mean(own))} at this protection.`;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, class: "curve", role: "img", "aria-label": label },
    [0, 0.5, 1].map((share) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: up(share), y2: up(share) }),
      svg("text", { x: LEFT - 6, y: up(share) + 4, "text-anchor": "end" }, percent(share)),
    ]),
    svg("line", { class: "blind", x1: LEFT, x2: width - RIGHT, y1: up(mean(0)), y2: up(mean(0)) }),
    svg(
      "text",
      { class: "blind-words", x: width - RIGHT, y: up(mean(0)) + 13, "text-anchor": "end" },
      "without answers",
    ),
    svg("polyline", {
      class: "line",
      points: points.map((e) => `${at(e)},${up(mean(e))}`).join(" "),
    }),
    [1, 2, 4, 6].map((epsilon) =>
      svg(
        "text",
        { x: at(epsilon), y: HEIGHT - 27, "text-anchor": "middle" },
        `${times(epsilon)}×`,
      ),
    ),
    svg(
      "text",
      { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 7, "text-anchor": "middle" },
      "times likelier an answer may be, at most",
    ),
    own <= MOST ? svg("circle", { class: "you", cx: at(own), cy: up(mean(own)), r: 5 }) : null,
    own <= MOST
      ? svg("text", { class: "you-words", x: at(own) + 9, y: up(mean(own)) + 12 }, "you")
      : null,
  );
};

const presence = (view, found) => {
  const blind = found.number
    ? `The films’ public averages alone get ${found.blind} of ${found.number} right.`
    : "";
  const overlap = view.presence ? presenceWords(view.presence) : "";
  return [
    el("h3", {}, "What it shows that you rated at all"),
    el("p", {}, [blind, overlap].filter(Boolean).join(" ")),
    view.presence
      ? bar(
          "List unchanged without your stars",
          view.presence.same / view.presence.of,
          "grey",
          `${view.presence.same} of ${view.presence.of}`,
        )
      : null,
    el(
      "p",
      { class: "quiet" },
      "Noise on the stars does not hide which films you rated. The first tab hides that too.",
    ),
  ];
};

/** Draw the guesses about this visitor, with the expected numbers beside. */
export const showAttacker = (view) => {
  if (!view.shown.length || !view.mechanism) {
    fill("guesses", el("p", { class: "quiet" }, "Nothing to guess from yet."));
    fill("presence");
    return;
  }
  const found = guesses(view.shown);
  const levels = view.shown[0].levels;
  const share = (count) => count / found.number;
  fill(
    "guesses",
    el(
      "p",
      {},
      el("span", { class: "big" }, `${found.right} of ${found.number}`),
      " stars guessed right",
    ),
    bar("With the answers", share(found.right), "rust", `${found.right} of ${found.number}`),
    bar(
      "Without them, from public averages",
      share(found.blind),
      "grey",
      `${found.blind} of ${found.number}`,
    ),
    el(
      "p",
      { class: "quiet" },
      `Expected on average: ${number(found.expected, 1)} with, ` +
        `${number(found.expectedBlind, 1)} without. ${found.number < 30 ? "So few ratings vary by luck." : ""}`,
    ),
    el("h3", {}, "Right guesses to expect, by protection"),
    curve(
      view,
      view.shown.map((record) => record.prior),
      levels,
    ),
  );
  fill("presence", view.records.length ? presence(view, found) : []);
};
