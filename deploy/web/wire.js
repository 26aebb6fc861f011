// On the wire: the very bytes of each event, and the place that Kafka confirmed.

import { byId, el, fill } from "./dom.js";
import { number, short } from "./words.js";

const rows = new Map(); // seq -> its row, kept so that an opened one stays open

const marked = (record) => {
  const at = record.body.lastIndexOf('"reports":[');
  if (at < 0) return [record.body];
  const from = at + '"reports":['.length,
    to = record.body.indexOf("]", from);
  return [
    record.body.slice(0, from),
    el("mark", {}, record.body.slice(from, to)),
    record.body.slice(to),
  ];
};

const placeOf = (record) => {
  if (record.place) {
    return `partition ${number(record.place.partition)}, offset ${record.place.offset}`;
  }
  return record.refused ? `refused: ${record.refused}` : "waiting";
};

const row = (view, record) =>
  el(
    "li",
    { "data-key": record.key, "data-seq": String(record.seq) },
    el(
      "details",
      {},
      el(
        "summary",
        {},
        el("span", { class: "title" }, view.titleOf(record)),
        el("b", { class: "report" }, short(record.report, record.levels)),
        el("span", { class: "place" }, placeOf(record)),
      ),
      el("code", { class: "body" }, marked(record)),
    ),
  );

/** Add the rows of new records, newest first, and write where each is stored. */
export const showWire = (view) => {
  const list = byId("events");
  if (!view.records.length) {
    rows.clear();
    fill(
      list,
      el(
        "li",
        { class: "empty" },
        "Nothing yet. Your first rating appears here as the server receives it.",
      ),
    );
    return;
  }
  list.querySelector(".empty")?.remove();
  for (const record of view.records) {
    if (!rows.has(record.seq)) {
      for (const earlier of rows.values()) earlier.querySelector("details").open = false;
      rows.set(record.seq, row(view, record));
      list.prepend(rows.get(record.seq));
      rows.get(record.seq).querySelector("details").open = true;
    }
    const shown = rows.get(record.seq);
    const place = shown.querySelector(".place");
    if (place.textContent !== placeOf(record)) place.textContent = placeOf(record);
    shown.classList.remove("stored", "refused", "waiting");
    shown.classList.add(record.place ? "stored" : record.refused ? "refused" : "waiting");
    shown.querySelector(".title").textContent = view.titleOf(record);
  }
};

/** The row of a record, where an answer that leaves the device arrives. */
export const rowOf = (record) => rows.get(record.seq);
