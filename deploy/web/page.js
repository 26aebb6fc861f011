// The page: reads the catalogue and the public table, opens the device, and draws every section
// from one view.

import { Device } from "./device.js";
import { decodeSide } from "./ranking.js";
import { byId, fill, say } from "./dom.js";
import { focusNext, listenToFilms, sayLast, showFilms, showProtection } from "./films.js";
import { fly } from "./flight.js";
import { linkColumns } from "./linking.js";
import { clearList, LENGTH, ownList, presenceOverlap, showLists } from "./lists.js";
import { showAttacker } from "./attacker.js";
import { showMap } from "./map.js";
import { showMeter } from "./meter.js";
import { openingProblem, showProblems } from "./problems.js";
import { readCatalogue, readClearSide, readList, readMechanisms, readSide } from "./reading.js";
import { showBeliefs } from "./server.js";
import { follow, showStream } from "./stream.js";
import { showPart } from "./taking.js";
import { rowOf, showWire } from "./wire.js";
import { BUDGET, concluded, readJournal, view } from "./view.js";
import { fraction, plural, sentence, times } from "./words.js";

const GOAL = 10; // ratings that show what the page is about
const refresh = async () => {
  if (view.ready) {
    try {
      await readJournal();
      view.problems.delete("storage");
      // The device sends again by itself, when the gateway asked for it.
      const { waiting, problem } = view.device.state;
      if (waiting && problem) view.problems.set("sending", problem);
      else view.problems.delete("sending");
    } catch (problem) {
      view.problems.set(
        "storage",
        `${problem.message} Was this device deleted in another tab? Then reload this page.`,
      );
    }
  }
  draw();
};

const draw = () => {
  view.own = ownList(view);
  view.clearOwn = clearList(view);
  view.presence = presenceOverlap(view);
  showLead();
  showProtection(view, (mechanism) => {
    view.mechanism = mechanism;
    refresh();
  });
  showFilms(view, rate);
  showWire(view);
  showBeliefs(view);
  showLists(view);
  showMeter(view);
  showPart(view);
  showAttacker(view);
  showMap(view);
  showProblems(view);
};

const showLead = () => {
  if (view.mechanism) {
    const epsilon = fraction(view.mechanism.epsilon);
    document.querySelectorAll(".odds").forEach((node) => fill(node, times(epsilon)));
    document.querySelectorAll(".epsilon").forEach((node) => fill(node, view.mechanism.epsilon));
  }
  const rated = view.records.length;
  byId("start").disabled = !view.ready || !view.catalogue.length;
  say(
    "progress",
    !view.ready
      ? (view.opening ?? "loading")
      : rated === 0
        ? "one click a film"
        : rated < GOAL
          ? `${rated} of ${GOAL} rated`
          : `${plural(rated, "film")} rated: now read on`,
  );
};

const starsOfFilm = (film) => document.querySelector(`#films [data-key="${film.key}"] .stars`);

const rate = async (film, level, byKeyboard) => {
  if (!view.ready) {
    film.retried = (film.retried ?? 0) + 1; // draws the row again, without the choice
    return showFilms(view, rate);
  }
  view.problems.delete("rating");
  let record;
  try {
    record = await view.device.rate({
      item: film.item,
      key: film.key,
      level,
      mechanism: view.mechanism.id,
    });
  } catch (problem) {
    view.problems.set("rating", problem.message);
    film.retried = (film.retried ?? 0) + 1; // draws the row again, without the refused choice
  }
  await refresh();
  if (!record) return;
  const shown = concluded(record);
  sayLast(view, shown);
  fly(shown, starsOfFilm(film), rowOf(shown));
  if (byKeyboard) focusNext(film.key);
};

let asking = 0; // a timer: several confirmations in a row ask once

const askLater = () => {
  clearTimeout(asking);
  if (view.records.some(({ place }) => place)) asking = setTimeout(ask, 1200);
};

const ask = async () => {
  try {
    const items = await readList(view.device.pseudonym, LENGTH);
    const keys = new Map(view.catalogue.map((film) => [film.item, film.key]));
    view.asked = items.map(({ item, title }) => ({
      key: keys.get(item) ?? "",
      title: title || (keys.has(item) ? null : String(item)), // else the catalogue's
    }));
    view.askedProblem = "";
  } catch (problem) {
    view.askedProblem = `${sentence(problem.message)} Asked again soon.`;
    asking = setTimeout(ask, 5000);
  }
  showLists(view);
};

/** Try again until it succeeds: a page that was opened too early needs no reload. */
const until = async (name, attempt, seconds) => {
  try {
    if (await attempt()) return;
    view.problems.delete(name);
  } catch (problem) {
    view.problems.set(name, problem.message);
  }
  await refresh();
  setTimeout(() => until(name, attempt, seconds), 1000 * seconds);
};

const learnCatalogue = async () => {
  const before = view.catalogue.length;
  view.catalogue = await readCatalogue();
  view.catalogue = view.catalogue.map((film) => ({
    ...film,
    title: film.title || String(film.item),
    name: film.title || String(film.item),
    genres: film.genres ?? [],
  }));
  view.films = new Map(view.catalogue.map((film) => [film.key, film]));
  view.problems.delete("catalogue");
  await refresh();
  return view.catalogue.length > 0 && view.catalogue.length === before; // none is still arriving
};

let known = { side: 0, clear: 0 }; // sizes and first bytes stand for the newest tables

const decoded = (name, bytes) => {
  if (!bytes) return null;
  const head = new Uint8Array(bytes, 0, 29).join() + bytes.byteLength;
  if (known[name] === head) return view[name];
  known[name] = head;
  return decodeSide(bytes);
};

const learnSides = async () => {
  view.side = decoded("side", await readSide());
  const offered = await readMechanisms().catch(() => null);
  if (offered?.demo) view.clear = decoded("clear", await readClearSide());
  return false; // the tables change as the server learns
};

const openDevice = async () => {
  const offered = await readMechanisms().catch(() => null);
  const problem = openingProblem(offered);
  if (problem) {
    view.opening = "this page can only be looked at";
    throw new Error(problem);
  }
  view.device = await Device.open({ budget: BUDGET });
  view.mechanisms = view.device.mechanisms.toSorted(
    (a, b) => fraction(a.epsilon) - fraction(b.epsilon),
  );
  view.mechanism =
    view.mechanisms.find(({ id }) => id === offered?.default) ?? view.mechanisms[0] ?? null;
  if (!view.mechanism)
    throw new Error("This page reports single ratings, of which this gateway takes none.");
  view.device.onchange = changed;
  view.problems.delete("device");
  view.ready = true;
  await refresh();
  askLater();
  if (offered && offered.privacy_mode !== "local")
    takePart().catch(({ message }) => view.problems.set("part", message));
  return true;
};

const takePart = async () => {
  const { Campaigning } = await import("./campaigning.js");
  view.part = await Campaigning.open(view.device);
  if (view.part) view.part.onchange = changed;
  await refresh();
};

let last = Promise.resolve();

const changed = () => {
  last = last.then(async () => {
    const confirmed = view.records.filter(({ place }) => place).length;
    await refresh();
    if (view.records.filter(({ place }) => place).length !== confirmed) askLater();
  });
};

const startAgain = async () => {
  const words =
    "Start again as a new device? Your ratings in this browser are deleted; what was sent " +
    "stays with the server. Who knows that both devices are you adds the two up.";
  if (!confirm(words)) return;
  await view.device?.forgetMe();
  location.reload();
};

linkColumns();
listenToFilms(() => showFilms(view, rate));
byId("again").addEventListener("click", startAgain);
byId("takes-part").addEventListener("change", ({ target }) => 
  view.part.takePart(target.checked).catch(() => { target.checked = !target.checked; }));
byId("start").addEventListener("click", () => {
  byId("device").scrollIntoView();
  document.querySelector("#films .film:not(.rated) input")?.focus();
});
showStream(null);
follow((status) => {
  view.status = status;
  showStream(status);
  showProblems(view);
});
until("device", openDevice, 3);
until("catalogue", learnCatalogue, 3);
until("side", learnSides, 20);
