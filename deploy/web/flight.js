// The one animation: a rating leaves your device, and becomes the drawn answer on the way.

import { calm, el } from "./dom.js";
import { short } from "./words.js";

const TIME = { duration: 900, easing: "cubic-bezier(.4, 0, .2, 1)", fill: "forwards" };

const middle = (node) => {
  const { left, top, width, height } = node.getBoundingClientRect();
  return [left + Math.min(width, 90) / 2, top + Math.min(height, 40) / 2];
};

/** Fly from the film's stars to the row on the wire; nothing where motion is not wanted, or where
 *  the columns are not side by side. */
export const fly = (record, from, to) => {
  if (calm() || !from || !to || innerWidth < 900) return;
  const [x, y] = middle(from),
    [toX, toY] = middle(to);
  const side = (words, kind) => el("span", { class: kind }, words);
  const chip = el(
    "div",
    { class: "flight", "aria-hidden": "true" },
    side(short(record.level, record.levels), "own"),
    side(short(record.report, record.levels), "sent"),
  );
  document.body.append(chip);
  chip.style.left = `${x}px`;
  chip.style.top = `${y}px`;
  const flight = chip.animate(
    [
      { transform: "translate(-50%, -50%)" },
      { transform: `translate(calc(-50% + ${toX - x}px), calc(-50% + ${toY - y}px))` },
    ],
    TIME,
  );
  const change = [
    { opacity: 1 },
    { opacity: 1, offset: 0.45 },
    { opacity: 0, offset: 0.6 },
    { opacity: 0 },
  ];
  chip.firstChild.animate(change, TIME);
  chip.lastChild.animate(
    change.map((frame) => ({ ...frame, opacity: 1 - frame.opacity })),
    TIME,
  );
  flight.finished.finally(() => chip.remove());
};
