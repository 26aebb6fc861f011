// Somebody else, before the first click, made up here. Reports are drawn from the table that is
// offered, in this page, and nothing of it is sent.

import { eventBody, sample } from "./device.js";
import { concluded } from "./view.js";

const STARS = [5, 1, 4, 2, 5];
const NOBODY = "0".repeat(32);

let kept = null; // {of, records}: one draw for each protection, or the bars would dance

/** What the example person rated: [{film, stars}]. */
const ratedBy = ({ catalogue }) =>
  STARS.map((stars, n) => ({ film: catalogue[n], stars })).filter(({ film }) => film);

/** Records as the device would make them for the example person. */
export const exampleRecords = (view) => {
  const { mechanism } = view;
  if (!mechanism || !view.catalogue.length) return [];
  const rated = ratedBy(view), names = rated.map(({ film }) => film.key).join();
  const of = `${mechanism.id} ${names} ${view.side ? 1 : 0}`;
  if (kept?.of === of) return kept.records;
  const records = rated.map(({ film: { item, key }, stars }, n) => {
    const level = Math.round(((stars - 1) / 4) * (mechanism.levels - 1));
    const [high, low] = crypto.getRandomValues(new Uint32Array(2));
    const word = (BigInt(high) << 32n) | BigInt(low);
    const drawn = { seq: n + 1, item, key, level, mechanism: mechanism.id, epoch: 0,
      report: sample(mechanism.counts, level, word) };
    const body = eventBody({ device: NOBODY, ...drawn });
    return { ...concluded({ ...drawn, body, place: null, refused: null }), example: true };
  });
  kept = { of, records };
  return records;
};
