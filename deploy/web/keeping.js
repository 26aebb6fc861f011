// Ratings that stay in this browser: they rank its lists, and its part in a campaign is made of
// them. No report of them is drawn. An item that was reported keeps what was clicked then.

import { number, plural } from "./words.js";

export const MOST_KEPT = 20_000;
const DAY = 86_400_000;

/** Keep ratings [{item, key, level, levels}], the newest of an item in the place of an earlier one;
 *  a level of null forgets it. One transaction; returns how many items were left as reported.
 *  Error where more would be kept than `MOST_KEPT`: then nothing of them is. */
export const keep = async (device, ratings) => {
  const left = await device.change(async (records, about) => {
    const all = await device.read(records, about), epoch = Math.floor(Date.now() / DAY);
    const reported = new Set(all.records.flatMap(({ key }) => key ?? []));
    const kept = new Map(all.kept.map((each) => [each.key, each]));
    let changed = false; // then the shares show what was rated before
    for (const { item, key, level, levels } of ratings) {
      if (reported.has(key)) continue;
      const before = kept.get(key);
      changed ||= Boolean(before) && (before.level !== level || before.levels !== levels);
      kept.delete(key); // the newest stands last
      if (level !== null) kept.set(key, { item, key, level, levels, epoch });
    }
    if (kept.size > MOST_KEPT)
      throw new Error(`${plural(kept.size, "rating")} would be kept, and this browser keeps ` +
        `${number(MOST_KEPT)} at most: nothing was changed; take fewer`);
    about.put([...kept.values()], "kept");
    if (changed && all.campaigns) // what is still to be sent stays, byte for byte
      about.put({ ...all.campaigns, shares: null }, "campaigns");
    return ratings.filter(({ key }) => reported.has(key)).length;
  });
  device.changed();
  return left;
};
