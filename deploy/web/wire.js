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
  if (record.example) return "not sent";
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
  if (rows.size && rows.values().next().value.of !== view.shown[0]?.body) {
    rows.clear(); // of an example, or of a device that was forgotten
    fill(list);
  }
  for (const record of view.shown) {
    if (!rows.has(record.seq)) {
      for (const { node } of rows.values()) node.querySelector("details").open = false;
      rows.set(record.seq, { node: row(view, record), of: view.shown[0].body });
      list.prepend(rows.get(record.seq).node);
      rows.get(record.seq).node.querySelector("details").open = true;
    }
    const shown = rows.get(record.seq).node;
    const place = shown.querySelector(".place");
    if (place.textContent !== placeOf(record)) place.textContent = placeOf(record);
    shown.querySelector(".title").textContent = view.titleOf(record);
    shown.classList.remove("stored", "refused", "waiting");
    if (record.example) continue;
    shown.classList.add(record.place ? "stored" : record.refused ? "refused" : "waiting");
  }
};

/** The row of a record, where an answer that leaves the device arrives. */
export const rowOf = (record) => rows.get(record.seq)?.node;
