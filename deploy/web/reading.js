// What the page reads from the gateway: the same answers for every visitor, and one list.

const OPTIONS = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-cache" };

/** A refusal of the gateway, or its absence, as a sentence. */
export class Unanswered extends Error {
  constructor(sentence, status, reason) {
    super(sentence);
    [this.status, this.reason] = [status, reason];
  }
}

const answer = async (path, options = {}) => {
  let reply;
  try {
    reply = await fetch(path, { ...OPTIONS, ...options });
  } catch {
    throw new Unanswered("The gateway does not answer.", 0, "away");
  }
  if (reply.ok) return reply;
  const refusal = await reply.json().catch(() => ({}));
  throw new Unanswered(
    refusal.error ?? `The gateway answered ${reply.status}.`,
    reply.status,
    refusal.reason,
  );
};

export const readMechanisms = async () => (await answer("mechanisms")).json();

/** The items that can be rated, most popular first. */
export const readCatalogue = async () =>
  (await (await answer("catalogue")).json()).items.filter((item) => !item.withdrawn);

const bytesOrNull = async (path) => {
  const reply = await answer(path);
  return reply.status === 204 ? null : reply.arrayBuffer();
};

/** The size of a demo and what it measured; null while it does not know yet. */
export const readDemo = async () => {
  const reply = await answer("demo");
  return reply.status === 204 ? null : reply.json();
};

/** The keys of the items of campaigns, which the page's host pins; null where it pins none. */
export const readPinned = async () => {
  const reply = await fetch("web/pinned.json", OPTIONS);
  return reply.ok ? (await reply.json()).items : null;
};

/** The newest campaign {number, epsilon, delta, parties, stages, stage, phase, contributions}, to be
 *  shown and not believed: `campaign/terms.js` checks it before anything is made. Null: none. */
export const readCampaign = async () => {
  const reply = await answer("campaign");
  if (reply.status === 204) return null;
  const { plan, ...status } = await reply.json();
  const { number, epsilon, delta, parties, stages } = JSON.parse(atob(plan));
  return { contributions: null, ...status, number, epsilon, delta, parties, stages: stages.length };
};

/** The bytes of the public item side, or null while there is none. */
export const readSide = () => bytesOrNull("item-links");

/** The bytes of what the newest campaign has published, or null while it has not. */
export const readCampaignSide = () => bytesOrNull("campaign/side");

/** The server's list for a pseudonym. */
export const readList = async (pseudonym, count) =>
  (await (await answer(`recommendations/${pseudonym}?k=${count}`, { cache: "no-store" })).json())
    .items;
