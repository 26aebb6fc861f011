// The taste map: films by the factors of the public table, and where you stand among them.
//
// A film lies where its factors point. You stand in the middle of the films that point most as your
// taste vector does: once by your true stars, and once by what the server received. Which way is up
// means nothing, and two dimensions show only a part of it.

import { byId, el, fill, svg } from "./dom.js";
import { taste } from "./ranking.js";
import { historyOf } from "./lists.js";
import { axesOf, placed } from "./projection.js";
import { internal } from "./words.js";

const EDGE = 26;
const NEAREST = 12; // films that a standing is the middle of
const DOTS = 120,
  GENRES = 7;

let layout = null; // of the newest side
let width = 560,
  height = 400; // of the drawing, in pixels of the page: a phone's letters stay legible

const layOut = (side) => {
  const slots = [...side.popularity.keys()]
    .sort((a, b) => side.popularity[b] - side.popularity[a])
    .slice(0, DOTS);
  // The direction of a film says with which films it goes; its length mostly how popular it is.
  const rows = slots.map((slot) => {
    const row = Array.from(side.factors.subarray(slot * side.r, (slot + 1) * side.r));
    const length = Math.hypot(...row) || 1;
    return row.map((x) => x / length);
  });
  const projection = axesOf(rows);
  const places = rows.map((row) => placed(projection, row));
  const most = [0, 1].map((axis) =>
    Math.max(...places.map((place) => Math.abs(place[axis])), 1e-9),
  );
  return { side, slots, rows, places, most };
};

const onPaper = ([x, y]) => [
  width / 2 + x * (width / 2 - EDGE),
  height / 2 - y * (height / 2 - EDGE),
];

const standing = (found, side, history) => {
  const vector = taste(side, history);
  if (!(Math.hypot(...vector) > 0)) return null;
  const along = found.rows.map((row) => row.reduce((sum, x, i) => sum + x * vector[i], 0));
  const nearest = [...along.keys()].sort((a, b) => along[b] - along[a]).slice(0, NEAREST);
  const middle = [0, 1].map(
    (axis) => nearest.reduce((sum, n) => sum + found.places[n][axis], 0) / nearest.length,
  );
  return onPaper(middle.map((z, axis) => z / found.most[axis]));
};

/** Whether a box overlaps none of those taken; it is taken then. */
const free = (box, taken) => {
  if (taken.some((b) => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3]))
    return false;
  taken.push(box);
  return true;
};

/** The genres that lie together, each in the middle of its films, the farthest out first. */
const genresOf = (view, dots, taken) => {
  const found = new Map();
  for (const dot of dots) {
    for (const genre of view.films.get(dot.key)?.genres ?? []) {
      found.set(genre, [...(found.get(genre) ?? []), dot]);
    }
  }
  const middles = [...found]
    .filter(([, films]) => films.length >= 4)
    .map(([genre, films]) => ({
      genre,
      x: films.reduce((sum, { x }) => sum + x, 0) / films.length,
      y: films.reduce((sum, { y }) => sum + y, 0) / films.length,
    }));
  const out = ({ x, y }) => Math.hypot(x - width / 2, y - height / 2);
  return middles
    .sort((a, b) => out(b) - out(a))
    .filter(({ genre, x, y }) => {
      const half = 5 * genre.length;
      return x - half > 0 && x + half < width && free([x - half, y - 10, x + half, y + 8], taken);
    })
    .slice(0, GENRES)
    .map(({ genre, x, y }) =>
      svg("text", { class: "genre", x, y: y + 4, "text-anchor": "middle" }, genre),
    );
};

/** Names beside as many dots as there is room for: the rated ones first. */
const namesOf = (view, dots, taken) => {
  const found = [];
  for (const dot of [...dots].sort((a, b) => b.rated - a.rated)) {
    if (found.length >= width / 35) break;
    const name = view.nameOf(dot.key);
    const text = name.length > 24 ? `${name.slice(0, 23).trimEnd()}…` : name;
    const long = 6.6 * text.length + 8;
    const left = dot.x + long > width - 4 ? dot.x - long - 2 : dot.x + 7;
    if (left < 2 || !free([left, dot.y - 7, left + long, dot.y + 7], taken)) continue;
    found.push(
      svg("text", { class: dot.rated ? "name rated" : "name", x: left, y: dot.y + 4 }, text),
    );
  }
  return found;
};

const mark = (place, kind, words, side) =>
  place &&
  svg(
    "g",
    { class: kind },
    svg("circle", { cx: place[0], cy: place[1], r: 8 }),
    svg(
      "text",
      { x: place[0] + 12 * side, y: place[1] + 5, "text-anchor": side > 0 ? "start" : "end" },
      words,
    ),
  );

/** Draw the map. */
export const showMap = (view) => {
  const side = view.side;
  if (!side || !side.r) {
    fill(
      "map-body",
      el(
        "p",
        { class: "quiet" },
        "No map yet: the server has not learned enough of what goes together.",
      ),
    );
    return;
  }
  width = Math.max(byId("map-body").clientWidth, 280);
  height = Math.round(Math.min(Math.max(width * 0.7, 300), 480));
  if (layout?.side !== side) layout = layOut(side);
  const rated = new Set(view.history.map(({ key }) => key));
  const dots = layout.slots.map((slot, n) => {
    const [x, y] = onPaper(layout.places[n].map((z, axis) => z / layout.most[axis]));
    const key = side.keys[slot];
    return { key, x, y, rated: rated.has(key) };
  });
  const you = standing(
    layout,
    side,
    historyOf(view.history, ({ stars }) => stars),
  );
  const seen = standing(
    layout,
    side,
    historyOf(view.records, (record) => internal(record.report, record.levels)),
  );
  const box = (place, words, towards) =>
    place &&
    (towards > 0
      ? [place[0] - 10, place[1] - 12, place[0] + 16 + 7.5 * words, place[1] + 12]
      : [place[0] - 16 - 7.5 * words, place[1] - 12, place[0] + 10, place[1] + 12]);
  // The two names look away from each other, and back where the edge is near.
  const left = you && seen && you[0] < seen[0];
  const youTo = you && (you[0] > width - 60 || (left && you[0] > 60)) ? -1 : 1;
  const seenTo = seen && (seen[0] > width - 150 || (!left && seen[0] > 150)) ? -1 : 1;
  const taken = [box(you, 3, youTo), box(seen, 16, seenTo)].filter(Boolean);
  const genres = genresOf(view, dots, taken);
  const names = namesOf(view, dots, taken);
  const label = you
    ? "Map of films; you, and you as the server sees you, are marked."
    : "Map of films. Rate some to see where you stand.";
  fill(
    "map-body",
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
      svg("line", { class: "grid", x1: EDGE, x2: width - EDGE, y1: height / 2, y2: height / 2 }),
      svg("line", { class: "grid", x1: width / 2, x2: width / 2, y1: EDGE, y2: height - EDGE }),
      dots.map((dot) =>
        svg(
          "circle",
          { class: dot.rated ? "dot rated" : "dot", cx: dot.x, cy: dot.y, r: dot.rated ? 5 : 3 },
          svg("title", {}, view.nameOf(dot.key)),
        ),
      ),
      genres,
      names,
      you && seen
        ? svg("line", { class: "between", x1: you[0], y1: you[1], x2: seen[0], y2: seen[1] })
        : null,
      mark(seen, "seen", "you, to the server", seenTo),
      mark(you, "you", "you", youTo),
    ),
    el(
      "p",
      { class: "quiet" },
      you && seen && Math.hypot(you[0] - seen[0], you[1] - seen[1]) < 16
        ? "You stand in the middle of the dozen films here that fit your taste best. To the server " +
            "you stand there too: which films you rated says most, and that is public."
        : you
          ? "You stand in the middle of the dozen films here that fit your taste best." +
            (seen
              ? " The line leads to where the server, from the noised answers, thinks that you stand."
              : "")
          : "Rate some films to see where you stand, and where the server thinks you stand.",
    ),
  );
};
