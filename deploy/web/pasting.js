// Ratings that a person has elsewhere: lines "title or id, stars" become levels of known films.

import { MOST_KEPT } from "./keeping.js";
import { number, plural } from "./words.js";

const LINE = /^(.*\S)\s*[,;\t]\s*([0-9](?:\.[0-9]+)?)\s*$/;
const plain = (title) => title.trim().replace(/^"(.*)"$/, "$1").toLocaleLowerCase();

/** Take pasted text as a whole: a browser that inserts 10,000 lines by itself stands still. */
export const listenToPaste = (box) =>
  box.addEventListener("paste", (event) => {
    event.preventDefault();
    const { value, selectionStart: from, selectionEnd: to } = box;
    box.value = value.slice(0, from) + event.clipboardData.getData("text") + value.slice(to);
  });

/** {ratings, unknown, missed}: of the lines that name a film and 1 to 5 stars, the first line that
 *  does not, and how many do not. Error where there are more than are kept. */
export const parsed = (text, catalogue, levels) => {
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length > MOST_KEPT)
    throw new Error(`${plural(lines.length, "line")}: ${number(MOST_KEPT)} at most, nothing was kept; ` +
      "paste fewer");
  const films = new Map(), ids = new Map(catalogue.map((film) => [String(film.item), film]));
  for (const film of catalogue) // the most popular of equal titles
    for (const name of [film.bare, film.title])
      if (!films.has(plain(name))) films.set(plain(name), film);
  const ratings = [];
  let unknown = null, missed = 0;
  for (const line of lines) {
    const [, name, stars] = LINE.exec(line) ?? [];
    const film = name && (ids.get(name) ?? films.get(plain(name)));
    if (!film || stars < 1 || stars > 5) {
      unknown ??= line.slice(0, 60);
      missed++;
      continue;
    }
    const level = Math.min(levels, Math.max(1, Math.round((stars * levels) / 5))) - 1;
    ratings.push({ item: film.item, key: film.key, level, levels });
  }
  return { ratings, unknown, missed };
};
