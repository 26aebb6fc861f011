// The rating of one film: a radio group of stars.
//
// A click rates. With the keyboard the arrows choose, and Enter, the space bar or the button rates:
// a draw is made once and cannot be taken back, so moving through the stars must not make it.

import { el, fill } from "./dom.js";
import { rated } from "./words.js";

const star = (half) => el("span", { class: half ? "star half" : "star", "aria-hidden": "true" });

/** The radio group of `film` on a scale of `levels`, the level checked where there is one;
 *  `rate(level, byKeyboard)` is called with each answer. `fixed`: it takes none; `group`: names the
 *  one of several groups of a film. */
export const starsFor = (film, levels, level, rate, { fixed = level !== null, group: of = "" } = {}) => {
  const group = el("div", { class: "stars", role: "radiogroup", "aria-label": film.name });
  const inputs = [];
  const commit = (byKeyboard) => {
    const chosen = inputs.findIndex((input) => input.checked);
    if (chosen >= 0) rate(chosen, byKeyboard);
  };
  for (let value = 0; value < levels; value++) {
    const input = el("input", {
      type: "radio",
      name: `stars-${of}${film.key}`,
      value: String(value),
      "aria-label": `${film.name}, ${rated(value, levels)}`,
      checked: value === level,
      disabled: fixed,
    });
    inputs.push(input);
    // The stars are drawn by the label; `filled` marks those up to the one chosen or pointed at.
    const label = el(
      "label",
      { class: levels === 10 ? "narrow" : null },
      input,
      star(levels === 10),
    );
    label.addEventListener("pointerenter", () => !fixed && paint(inputs, value));
    group.append(label);
  }
  group.addEventListener("pointerleave", () => paint(inputs));
  const button = el(
    "button",
    { type: "button", class: "confirm", hidden: true, onclick: () => commit(true) },
    "Rate",
  );
  group.addEventListener("change", () => {
    paint(inputs);
    button.hidden = false;
  });
  // An arrow key also makes a click event, without a pointer and with a detail of 0.
  group.addEventListener("click", (event) => {
    if (event.target.matches("input") && event.detail > 0) commit(false);
  });
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (!inputs.includes(event.target) || event.target.disabled) return;
    event.target.checked = true;
    commit(true);
  });
  paint(inputs);
  return el("div", { class: "rating" }, group, button);
};

const paint = (inputs, upTo = inputs.findIndex((input) => input.checked)) =>
  inputs.forEach((input, value) => input.parentElement.classList.toggle("filled", value <= upTo));
