// The privacy meter: one rating in words, and the whole person from the exact accountant.

import { el, fill, size } from "./dom.js";
import { fraction, number, personStrength, plural, times } from "./words.js";

/** A bound, with one digit: never below what was spent, but for the last bits of a sum. */
const above = (epsilon) => Math.ceil(10 * epsilon - 1e-6) / 10;

const odds = (epsilon) => {
  const line = (share, words, kind) =>
    el(
      "p",
      { class: "odds-bar" },
      size(el("i", { class: kind }), "width", share),
      el("span", {}, words),
    );
  const most = times(epsilon);
  return el(
    "div",
    { class: "compare" },
    line(1 / Math.exp(epsilon), "an answer, if you had clicked another rating: 1", "low"),
    line(1, `the same answer, if you clicked this one: ${most} at most`, "high"),
  );
};

const person = (view) => {
  const { reports, epsilon } = view.spent;
  const bar = el(
    "div",
    {
      class: "budget",
      role: "meter",
      "aria-label": "Budget of the whole person",
      "aria-valuemin": "0",
      "aria-valuemax": number(view.budget.epsilon),
      "aria-valuenow": above(epsilon),
      "aria-valuetext": `epsilon ${number(above(epsilon), 1)} of ${number(view.budget.epsilon)}`,
    },
    size(el("i"), "width", epsilon / view.budget.epsilon),
  );
  const beside = view.part?.state.on ? " and your part in sums" : "";
  const words =
    reports === 0
      ? "Answers add up. With each one, what they say together about you as a person grows."
      : `${plural(reports, "answer")}${beside} together: at most ${times(epsilon)} times likelier from you than ` +
        `from a person with other stars for these films. As a whole you are ${personStrength(epsilon)}.`;
  return [
    el("h3", {}, "You as a whole"),
    el(
      "p",
      { class: "big" },
      number(above(epsilon), 1),
      el("small", {}, ` of ${number(view.budget.epsilon)} (epsilon)`),
    ),
    bar,
    el("p", {}, words),
  ];
};

const left = (view) => {
  const ratings = view.spent.left;
  if (ratings === 0) return "Your budget is spent: this device draws and sends nothing more.";
  return (
    `${plural(ratings, "more rating")} fit${ratings === 1 ? "s" : ""} into your budget. Then this ` +
    "device refuses: it draws and sends nothing more."
  );
};

/** Draw the meter. */
export const showMeter = (view) => {
  if (!view.mechanism || !view.spent) {
    fill(
      "meter-body",
      el("p", { class: "quiet" }, "No single rating is reported from here."),
    );
    return;
  }
  const epsilon = fraction(view.mechanism.epsilon);
  fill(
    "meter-body",
    el("h3", {}, "Each rating"),
    el(
      "p",
      {},
      "Whatever you clicked, any answer is ",
      el("b", {}, `at most ${times(epsilon)} times likelier`),
      " than under another rating",
      el("span", { class: "formal" }, ` (epsilon ${view.mechanism.epsilon}).`),
    ),
    odds(epsilon),
    el(
      "p",
      { class: "quiet" },
      "This browser has checked the table of the noise itself, in exact integers.",
    ),
    ...person(view),
    el("p", { id: "left", class: view.spent.left === 0 ? "spent" : null }, left(view)),
    view.spent.epsilon > 0
      ? el(
          "p",
          { class: "quiet" },
          `Any outcome: at most so many times as likely, plus a chance of one in ${number(1 / view.budget.delta)} ` +
            "(delta). A new device begins at zero, but who knows that both are you adds the two.",
        )
      : null,
  );
};
