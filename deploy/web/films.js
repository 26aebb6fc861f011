// Your device: the films, their stars, the choice of protection. All of it stays on this page.

import { byId, el, fill, say } from "./dom.js";
import { reportingProblem } from "./problems.js";
import { Rows } from "./rows.js";
import { starsFor } from "./stars.js";
import { fraction, meaning, plural, rated, short, times } from "./words.js";

const SHOWN = 12; // films at a time
const POPULAR = 24; // "Show others" goes round twice as many

const rows = new Rows("films");
let first = 0; // place of the first film shown

const words = (film) => [film.title, film.year, ...film.genres].join(" ").toLocaleLowerCase();

/** The films to show: found by the words typed, or so many from place `from` on. */
export const chosen = (catalogue, typed, from, count = SHOWN) => {
  const wanted = typed.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return catalogue.slice(from, from + count);
  return catalogue
    .filter((film) => wanted.every((word) => words(film).includes(word)))
    .slice(0, count);
};

/** The place of the next films, round the popular ones. */
export const nextFrom = (from, count = SHOWN) =>
  from + count >= POPULAR * 2 ? 0 : from + count;

const row = (view, film, rate) => {
  const record = view.byKey.get(film.key);
  const levels = view.levels;
  const level = record ? record.level : null;
  return el(
    "div",
    { class: record ? "film rated" : "film", "data-key": film.key },
    el(
      "p",
      { class: "title" },
      film.bare,
      film.year ? el("span", { class: "year" }, ` ${film.year}`) : null,
    ),
    starsFor(film, record ? record.levels : levels, level, (value, byKeyboard) =>
      rate(film, value, byKeyboard),
    ),
    el(
      "p",
      { class: "answer" },
      record ? ["sent ", el("b", {}, short(record.report, record.levels))] : null,
    ),
  );
};

/** Draw the films again where they changed. */
export const showFilms = (view, rate) => {
  const films = chosen(rows.inOrder(view.catalogue), byId("filter").value, first);
  const stateOf = ({ key, retried, title }) =>
    [view.levels, retried ?? 0, title, view.byKey.get(key)?.report ?? null];
  rows.show(films, stateOf, (film) => row(view, film, rate), view.catalogue.length);
};

/** Connect the search field and the button for other films. */
export const listenToFilms = (redraw) => {
  byId("filter").addEventListener("input", redraw);
  byId("others").addEventListener("click", () => {
    byId("filter").value = "";
    first = nextFrom(first);
    rows.release();
    redraw();
  });
};

/** Move the focus to the next film without a rating, or to the first. */
export const focusNext = (key) => {
  const shown = [...document.querySelectorAll("#films .film")];
  const place = shown.findIndex((film) => film.dataset.key === key);
  const next = [...shown.slice(place + 1), ...shown].find((film) => !film.matches(".rated"));
  (next?.querySelector("input") ?? byId("others")).focus();
};

/** Say what became of the last rating: what was clicked, and what was sent in its place. */
export const sayLast = (view, record) => {
  if (!record) return say("last", "");
  const title = view.titleOf(record);
  const [clicked, sent] = [rated(record.level, record.levels), rated(record.report, record.levels)];
  say(
    "last",
    record.level === record.report
      ? `${title}: you clicked ${clicked}, and the draw left it at that. The server cannot know.`
      : `${title}: you clicked ${clicked}, the draw made it ${sent}. Only that is sent.`,
  );
};

const protectionNote = (view, fixed) =>
  fixed
    ? "Fixed by your first rating. Another protection needs a new device."
    : "× is how many times likelier one rating can make an answer than another, at most. " +
      `${plural(view.spent?.left ?? 0, "rating")} with this protection fit into your budget.`;

/** The choice among the mechanisms of this browser; fixed by the first rating. */
export const showProtection = (view, choose) => {
  const fixed = view.records.length > 0;
  const key = JSON.stringify(view.mechanisms.map(({ id }) => id));
  const box = byId("protection");
  if (box.dataset.key === key && view.mechanisms.length) {
    for (const input of box.querySelectorAll("input")) {
      input.checked = input.value === view.mechanism.id;
      input.disabled = fixed;
    }
    return fill(box.querySelector(".quiet:last-child"), protectionNote(view, fixed));
  }
  box.dataset.key = key;
  if (!view.mechanisms.length)
    return fill(box, el("p", { class: "quiet" }, reportingProblem(view.offered)));
  const options = view.mechanisms.map((mechanism) => {
    const epsilon = fraction(mechanism.epsilon);
    return el(
      "label",
      {},
      el("input", {
        type: "radio",
        name: "protection",
        value: mechanism.id,
        checked: mechanism.id === view.mechanism.id,
        disabled: fixed,
        onchange: () => choose(mechanism),
      }),
      el(
        "span",
        {},
        el("b", {}, meaning(epsilon)),
        el("small", {}, `≤ ${times(epsilon)}× (ε ${mechanism.epsilon})`),
      ),
    );
  });
  return fill(
    box,
    el(
      "fieldset",
      {},
      el("legend", {}, "What the server can tell of your stars"),
      el("div", { class: "choice" }, options),
    ),
    el(
      "p",
      { class: "quiet" },
      el("a", { href: "#yours" }, "It can hardly tell whether you rated at all"),
      ": that is the first tab.",
    ),
    el("p", { class: "quiet" }, protectionNote(view, fixed)),
  );
};
