// What an attacker can conclude from reports: exact, from the same integer tables as the noise.
//
//   P(v | z) = P(z | v) P(v) / sum_w P(z | w) P(w)      v true level, z report, both 0 .. L-1
//   P(v) ~ exp(t v), with t such that the mean level is the public mean of the item
//
// The tilt is the distribution of largest entropy with that mean: it adds no knowledge of its own.

/** P(z | v) as rows of numbers, from counts of 2^64 given as decimal strings. */
export const channelOf = (counts) =>
  counts.map((row) => row.map((count) => Number(BigInt(count)) / 2 ** 64));

/** The channel of randomized response: the true level with weight e^epsilon, any other with 1. */
export const uniformResponse = (levels, epsilon) => {
  const advantage = Math.exp(epsilon),
    total = advantage + levels - 1;
  return Array.from({ length: levels }, (_, v) =>
    Array.from({ length: levels }, (_, z) => (v === z ? advantage : 1) / total),
  );
};

const tilted = (levels, t) => {
  // The largest exponent is subtracted, so no weight overflows.
  const weights = Array.from({ length: levels }, (_, v) =>
    Math.exp(t * v - Math.max(0, t * (levels - 1))),
  );
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
};

const meanOf = (odds) => odds.reduce((sum, share, v) => sum + share * v, 0);

/** The prior over levels of an item with this public mean in stars 1 .. 5; uniform without one. */
export const priorOf = (levels, stars) => {
  if (!Number.isFinite(stars)) return tilted(levels, 0);
  const share = Math.min(Math.max((stars - 1) / 4, 0.01), 0.99);
  let [low, high] = [-40, 40];
  for (let step = 0; step < 80; step++) {
    const middle = (low + high) / 2;
    if (meanOf(tilted(levels, middle)) < share * (levels - 1)) low = middle;
    else high = middle;
  }
  return tilted(levels, (low + high) / 2);
};

/** The belief about the true level after a report. */
export const posterior = (channel, prior, report) => {
  const weights = prior.map((share, v) => share * channel[v][report]);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
};

/** The best guess of a belief: its most probable level, the lowest of equal ones. */
export const guessOf = (belief) => belief.indexOf(Math.max(...belief));

/** How probable it is that the best guess from a report is right: sum_z max_v P(v) P(z | v). */
export const expectedRight = (channel, prior) =>
  channel[0].reduce(
    (sum, _, z) => sum + Math.max(...prior.map((share, v) => share * channel[v][z])),
    0,
  );

/** The same without a report. */
export const expectedBlind = (prior) => Math.max(...prior);

/** Guesses about many ratings: [{level, report, channel, prior}] -> how many are right, and how
 *  many are expected to be, with the reports and without them. */
export const guesses = (ratings) => {
  const found = { number: ratings.length, right: 0, expected: 0, blind: 0, expectedBlind: 0 };
  for (const { level, report, channel, prior } of ratings) {
    found.right += guessOf(posterior(channel, prior, report)) === level;
    found.expected += expectedRight(channel, prior);
    found.blind += guessOf(prior) === level;
    found.expectedBlind += expectedBlind(prior);
  }
  return found;
};
