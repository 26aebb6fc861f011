// The page: reads the catalogue and the public table, opens the device, and draws the tab that is
// open from one view.

import { Device } from "./device.js";
import { decodeSide } from "./ranking.js";
import { byId, fill, say } from "./dom.js";
import { exampleRecords } from "./example.js";
import { showFacts, showQuality } from "./facts.js";
import { focusNext, listenToFilms, sayLast, showFilms, showProtection } from "./films.js";
import { fly } from "./flight.js";
import { keep } from "./keeping.js";
import { linkColumns } from "./linking.js";
import { LENGTH, ownList, presenceOverlap, showLists } from "./lists.js";
import { showAttacker } from "./attacker.js";
import { showMap } from "./map.js";
import { showMeter } from "./meter.js";
import { finished, showPart } from "./part.js";
import { listenToPaste, parsed } from "./pasting.js";
import { unlessPressed } from "./pressing.js";
import { openingProblem, reportingProblem, showProblems } from "./problems.js";
import {
  readCampaign, readCampaignSide, readCatalogue, readDemo, readList,
  readMechanisms, readPinned, readSide,
} from "./reading.js";
import { showBeliefs } from "./server.js";
import { follow, showBoards, showStream } from "./stream.js";
import { listenToTabs, openTab } from "./tabs.js";
import { rowOf, showWire } from "./wire.js";
import { listenToCards, showYours } from "./yours.js";
import { BUDGET, concluded, readJournal, view } from "./view.js";
import { fraction, plural, sentence, split, times } from "./words.js";

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

// What each tab shows; the others are drawn when they are opened.
const PARTS = {
  yours: () => {
    showYours(view, keepRating);
    showPart(view);
    showQuality(view);
  },
  reports: () => {
    view.presence = presenceOverlap(view);
    showLead();
    showProtection(view, (mechanism) => {
      view.mechanism = mechanism;
      refresh();
    });
    showFilms(view, rate);
    sayLast(view, view.last);
    showWire(view);
    showBeliefs(view);
    showLists(view);
    showMeter(view);
    showAttacker(view);
    showMap(view);
  },
  operators: () => showBoards(view),
};

const draw = unlessPressed(() => {
  view.shown = view.records.length ? view.records : exampleRecords(view);
  document.querySelectorAll(".example").forEach((node) => {
    node.hidden = view.records.length > 0 || !view.shown.length;
  });
  view.own = ownList(view);
  showFacts(view, openTab());
  PARTS[openTab()]();
  showProblems(view);
});

const showLead = () => {
  if (view.mechanism) {
    const epsilon = fraction(view.mechanism.epsilon);
    document.querySelectorAll(".odds").forEach((node) => fill(node, times(epsilon)));
    document.querySelectorAll(".epsilon").forEach((node) => fill(node, view.mechanism.epsilon));
  }
  const rated = view.records.length;
  say(
    "progress",
    !view.ready || !view.mechanism
      ? ""
      : rated < GOAL
        ? `${rated} of ${GOAL} rated.`
        : `${plural(rated, "film")} rated: now read on.`,
  );
};

/** Let a film be drawn again, without the choice: by its key, since the catalogue is read twice. */
const retry = ({ key }) => {
  const film = view.films.get(key); // none where it was withdrawn meanwhile
  if (film) film.retried = performance.now();
};

/** Keep a level in this browser, or forget it with null; nothing is sent. */
const keepRating = async (film, level) => {
  const { item, key } = film;
  try {
    if (!view.ready) throw new Error(view.opening ?? "this page still opens: rate again");
    await keep(view.device, [{ item, key, level, levels: view.levels }]);
    view.problems.delete("keeping");
  } catch (problem) {
    view.problems.set("keeping", problem.message);
    retry(film);
    draw();
  }
};

const paste = async () => {
  const box = byId("pasted");
  try {
    if (!view.ready) throw new Error("this page still opens: try again");
    const { ratings, unknown, missed } = parsed(box.value, view.catalogue, view.levels);
    const left = await keep(view.device, ratings);
    box.value = "";
    const words = [
      missed && `${missed} name no film here or no stars from 1 to 5, first: ${unknown}`,
      left && `${left} are of films reported in the other tab, which keep those stars`,
    ].filter(Boolean);
    view.problems.delete("keeping");
    if (words.length) {
      const taken = plural(ratings.length - left, "line");
      view.problems.set("keeping", `${taken} kept; ${words.join("; ")}`);
    }
  } catch ({ message }) {
    view.problems.set("keeping", message);
  }
  await refresh();
};

const starsOfFilm = (film) => document.querySelector(`#films [data-key="${film.key}"] .stars`);

const rate = async (film, level, byKeyboard) => {
  if (!view.ready || !view.mechanism) {
    retry(film);
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
    retry(film);
  }
  const shown = record && concluded(record);
  view.last = shown ?? view.last; // drawn, since on a phone it covers films
  await refresh();
  if (!record) return;
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
    view.asked = items.map(({ item, title }) => { // without an id it is {key}
      const key = item.key ?? view.items.get(String(item))?.key;
      return { key: key ?? "", title: title || (key ? null : String(item)) }; // or the catalogue's
    });
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

/** The films of a campaign's scope first, in its order: a rating of another is no part of the sum. */
const scopeFirst = () => {
  const { scope } = view;
  const place = ({ key }) => scope.get(key) ?? scope.size;
  const films = view.catalogue.toSorted((a, b) => place(a) - place(b));
  if (films.some((film, n) => film !== view.catalogue[n])) view.catalogue = films;
};

let known = {}; // sizes and first bytes stand for the newest tables

const learnCatalogue = async () => {
  const before = view.catalogue.length;
  view.catalogue = await readCatalogue();
  view.catalogue = view.catalogue.map((film) => {
    const title = film.title || String(film.item);
    const [bare, year] = split(title, film.year);
    return { ...film, title, name: title, bare, year, genres: film.genres ?? [] };
  });
  view.films = new Map(view.catalogue.map((film) => [film.key, film]));
  view.items = new Map(view.catalogue.map((film) => [String(film.item), film]));
  if (view.catalogue.length !== before) known.summed = null; // its genres are part of that ranking
  view.problems.delete("catalogue");
  scopeFirst();
  await refresh();
  return view.catalogue.length > 0 && view.catalogue.length === before; // none is still arriving
};


const decoded = (bytes) => {
  if (!bytes) return null;
  const head = new Uint8Array(bytes, 0, 29).join() + bytes.byteLength;
  if (known.side === head) return view.side;
  known.side = head;
  return decodeSide(bytes);
};

/** Read what the newest campaign has published; its ranking is loaded where there are campaigns. */
const learnSummed = async () => {
  const bytes = await readCampaignSide();
  const head = bytes && new Uint8Array(bytes, 0, Math.min(bytes.byteLength, 96)).join();
  if (!bytes || !view.films.size || known.summed === head) return;
  const { decodeCampaign, rankCampaign } = await import("./campaign_ranking.js");
  const side = decodeCampaign(bytes, view.films);
  // An item that the catalogue does not name is no film to show.
  const named = ({ key }) => view.films.has(key);
  const listOf = (history, count) =>
    rankCampaign(side, history, side.keys.length).filter(named).slice(0, count);
  view.summed = { ...side, listOf };
  known.summed = head;
};

const learnSides = async () => {
  if (view.pinned) await learnSummed();
  view.side = decoded(await readSide());
  if (view.offered?.demo) view.demo = await readDemo().catch(() => view.demo);
  return false; // the tables change as the server learns
};

const offer = (offered) => {
  view.offered ??= offered;
  if (view.offered?.privacy_mode === "local") view.pinned = false;
};

const openDevice = async () => {
  const offered = await readMechanisms().catch(() => null);
  offer(offered);
  if (offered && view.pinned === null) await learnScope();
  view.reading ??= until("side", learnSides, 20);
  const problem = openingProblem();
  if (problem) {
    view.opening = problem;
    throw new Error(problem);
  }
  const device = await Device.open({ budget: BUDGET });
  if (!offered && !device.mechanisms.length) throw new Error("The gateway does not answer.");
  offer({ allowed: [], demo: false, privacy_mode: "local", silent: true });
  view.device = device;
  view.mechanisms = (reportingProblem(offered) ? [] : device.mechanisms).toSorted(
    (a, b) => fraction(a.epsilon) - fraction(b.epsilon),
  );
  view.mechanism =
    view.mechanisms.find(({ id }) => id === offered?.default) ?? view.mechanisms[0] ?? null;
  device.onchange = changed;
  view.problems.delete("device");
  view.ready = true;
  await refresh();
  askLater();
  if (view.offered.privacy_mode !== "local") openPart();
  return true;
};

/** Learn which items campaigns are over, before a film is shown: their order is the films' order. */
const learnScope = async () => {
  const items = await readPinned().catch(() => null);
  view.scope = new Map(items?.map((key, n) => [key, n]));
  view.pinned = Boolean(items);
  scopeFirst();
  draw();
};

const openPart = async () => {
  if (!view.pinned) return;
  if ((await view.device.all()).campaigns?.on) await loadPart().catch(tellPart);
  return until("part", learnCampaign, view.offered.demo ? 2 : 60);
};

const tellPart = ({ message }) => {
  view.problems.set("part", message);
  draw();
};

/** Turn the part in campaigns on or off. In a demo its stage is looked for at once; elsewhere at the
 *  minute's moment, so that when it is sent says nothing of the click. */
const takePart = async (on) => {
  await loadPart();
  await view.part.takePart(on);
  view.problems.delete("part");
};

const loadPart = async () => {
  if (view.part) return;
  const { Campaigning } = await import("./campaigning.js");
  view.part = await Campaigning.open(view.device);
  view.part.onchange = changed;
};

/** Read what is public of the newest campaign, and in a demo contribute where a stage is open. */
const learnCampaign = async () => {
  const before = view.campaign;
  view.campaign = await readCampaign();
  if (before?.number !== view.campaign?.number || before?.phase !== view.campaign?.phase)
    await learnSummed().catch(() => {}); // asked again with the other tables
  const { part, offered } = view;
  const { on, own } = part?.state ?? {};
  if (offered.demo && on && !document.hidden && !finished(own, view.campaign)) await part.look();
  await refresh();
  return false;
};

const clickPart = (on) => async () => {
  view.joining = on;
  draw();
  try {
    await takePart(on);
    if (on && view.offered.demo) await view.part.look();
  } catch (problem) {
    tellPart(problem);
  }
  view.joining = false;
  await learnCampaign().catch(tellPart);
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
listenToCards(() => showYours(view, keepRating));
listenToTabs(draw);
byId("again").addEventListener("click", startAgain);
byId("take-part").addEventListener("click", clickPart(true));
byId("stop-part").addEventListener("click", clickPart(false));
byId("paste-in").addEventListener("click", paste);
listenToPaste(byId("pasted"));
const drawStatus = unlessPressed(() => {
  showStream(view.status);
  showProblems(view);
});
drawStatus();
follow((status) => {
  const first = !view.status && status;
  view.status = status;
  drawStatus();
  if (first) draw();
});
until("device", openDevice, 3);
until("catalogue", learnCatalogue, 3);
