// The first tab: cards of films to rate, and the list that is ranked from them. Nothing on
// these cards is reported; a film that was reported in the other tab shows what was clicked there.

import { cover } from "./covers.js";
import { byId, el, fill, say } from "./dom.js";
import { chosen, nextFrom } from "./films.js";
import { Rows } from "./rows.js";
import { starsFor } from "./stars.js";
import { listed, plural } from "./words.js";

const SHOWN = 10; // cards at a time
const VARIED = 72; // popular films among which every genre comes in turn
const rows = new Rows("cards");
let first = 0;

/** The catalogue with its popular films by turns of genres: among the first is one for everybody. */
const varied = (catalogue) => {
  const turns = new Map();
  const popular = catalogue.slice(0, VARIED).map((film, place) => {
    const genre = film.genres[0] ?? "", turn = turns.get(genre) ?? 0;
    turns.set(genre, turn + 1);
    return { film, turn, place };
  });
  popular.sort((a, b) => a.turn - b.turn || a.place - b.place);
  return [...popular.map(({ film }) => film), ...catalogue.slice(VARIED)];
};

const facts = ({ genres, year }) =>
  [genres.slice(0, 2).join(", "), year].filter(Boolean).join(" · ");

const card = (view, film, rate) => {
  const reported = view.byKey.get(film.key), own = view.kept.get(film.key);
  const { level = null, levels = view.levels } = reported ?? own ?? {};
  const forget = () => rate(film, null);
  const words = `Forget the rating of ${film.title}`;
  return el(
    "div",
    { class: own || reported ? "card rated" : "card", "data-key": film.key, title: film.title },
    cover(film),
    el("p", { class: "title unseen" }, film.title),
    el(
      "div",
      { class: "caption" },
      el("p", { class: "facts-of" }, reported ? "reported" : facts(film) || "film"),
      own
        ? el("button", { type: "button", class: "forget", "aria-label": words, onclick: forget }, "×")
        : null,
    ),
    starsFor(film, levels, level, (value) => rate(film, value), {
      fixed: Boolean(reported),
      group: "kept-",
    }),
  );
};

const showCards = (view, rate) => {
  const { catalogue } = view.pinned === null ? { catalogue: [] } : view; // not yet in their order
  const films = chosen(rows.inOrder(catalogue, varied), byId("search").value, first, SHOWN);
  const stateOf = (film) => {
    const reported = view.byKey.get(film.key);
    const { level = null } = reported ?? view.kept.get(film.key) ?? {};
    return [view.levels, level, film.retried ?? 0, Boolean(reported), film.title];
  };
  rows.show(films, stateOf, (film) => card(view, film, rate), catalogue.length);
};

const keptWords = (view) => {
  const kept = view.kept.size, reported = view.records.length;
  if (!kept && !reported) return "Nothing here is sent, nor what you look for.";
  const also = reported ? ` ${plural(reported, "reported film")} of the other tab count too.` : "";
  const left = view.contributed ? "; they leave only as your part in the sum" : " and not sent";
  return `${plural(kept, "rating")} kept here${left}.${also}`;
};

/** The genres that a person gave 4 stars or more. */
const likedOf = ({ history, films }) =>
  new Set(history.filter(({ stars }) => stars >= 4).flatMap(({ key }) => films.get(key)?.genres ?? []));

const entry = (view, { key, because = [] }, liked) => {
  const film = view.films.get(key) ?? { key, bare: view.nameOf(key), genres: [], year: null };
  const reasons = listed(because.slice(0, 2).map((each) => view.films.get(each)?.bare ?? each));
  return el(
    "li",
    { "data-key": key },
    cover(film, true),
    el(
      "div",
      {},
      el("p", { class: "title" }, film.bare,
        film.year ? el("span", { class: "year" }, ` ${film.year}`) : null),
      el("p", { class: "genres" }, film.genres.map((genre, n) => [n ? ", " : "", liked.has(genre)
        ? el("b", { class: "fits", title: "a genre of films rated 4 or 5" }, genre) : genre])),
      because.length ? el("p", { class: "why" }, `goes with ${reasons}`) : null,
    ),
  );
};

const listNote = (view) => {
  if (!view.summed && !view.side)
    return "The server has not learned enough yet. Until then: the popular films.";
  if (!view.history.length) return "The popular films, until you rate one.";
  if (!view.own.length) return "You have rated every film that the public table knows.";
  return "Ranked here, from your stars and a public table that is the same for everybody.";
};

let drawn = "";

/** Draw cards and list. */
export const showYours = (view, rate) => {
  showCards(view, rate);
  say("kept", keptWords(view));
  say("list-note", listNote(view));
  const { own } = view, liked = likedOf(view);
  const rows = own.map(({ key, because }) => [key, because]);
  const state = JSON.stringify([rows, [...liked], view.films.size]);
  if (state === drawn) return;
  drawn = state;
  fill("listed", own.map((item) => entry(view, item, liked)));
};

/** Connect the search field and the button for other films. */
export const listenToCards = (redraw) => {
  byId("search").addEventListener("input", redraw);
  byId("more").addEventListener("click", () => {
    byId("search").value = "";
    first = nextFrom(first, SHOWN);
    rows.release();
    redraw();
  });
};
