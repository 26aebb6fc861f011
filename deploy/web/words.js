// Numbers as people read them. An epsilon never stands alone: beside it, how many times likelier.

const ROUND = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A number with at most `digits` decimals; a dash where it is not known. */
export const number = (value, digits = 0) =>
  value === null || value === undefined || !Number.isFinite(value)
    ? "–"
    : new Intl.NumberFormat("en", {
        maximumFractionDigits: digits,
        signDisplay: "negative", // and no "-0"
      }).format(value);

export const percent = (share) => `${ROUND.format(100 * share)} %`;

/** "1/2" -> 0.5: epsilons are exact fractions on the wire. */
export const fraction = (text) => {
  const [over, under = "1"] = String(text).split("/");
  return Number(over) / Number(under);
};

/** A delta as a chance, rounded so that it is not below: "one in 1,000,000". */
export const oneIn = (delta) => `one in ${number(Math.floor(1 / fraction(delta) + 1e-6))}`;

const up = (value, digits) => {
  const unit = 10 ** (Math.floor(Math.log10(value)) - digits + 1);
  return Math.ceil(value / unit - 1e-9) * unit;
};

const NAMES = [
  [1e12, "trillion"],
  [1e9, "billion"],
  [1e6, "million"],
];

/** e^epsilon, rounded up so that "at most" stays true: 7.4, 55, 9 million. */
export const times = (epsilon) => {
  const value = Math.exp(epsilon);
  if (value >= 1e15) return "more than a thousand trillion";
  for (const [size, name] of NAMES) {
    if (value >= size) return `${number(up(value / size, 2), 1)} ${name}`;
  }
  return number(up(value, 2), value < 10 ? 2 : 0);
};

/** What the server can tell from an answer, in words. */
export const meaning = (epsilon) =>
  epsilon <= 0.5
    ? "It can hardly tell 1 star from 5"
    : epsilon <= 1
      ? "It gets a hint of your stars"
      : epsilon < 4
        ? "It often reads your stars right"
        : "It mostly knows your stars";

/** What is left of a whole person's protection, in a few words. */
export const personStrength = (epsilon) =>
  epsilon <= 1
    ? "well protected"
    : epsilon <= 4
      ? "partly protected"
      : epsilon <= 10
        ? "weakly protected"
        : "hardly protected any more";

/** Level 3 of 5 -> 4 stars; of 10 -> 2 stars: a scale of ten has half stars. */
export const starsOf = (level, levels) => (5 * (level + 1)) / levels;

/** The same on 1 .. 5, as the ranking and the public means count. */
export const internal = (level, levels) => (levels < 2 ? 3 : 1 + (4 * level) / (levels - 1));

const halves = (levels) => levels === 5 || levels === 10;

/** "4 of 5 stars", "3.5 of 5 stars", or "6 of 7" on another scale. */
export const rated = (level, levels) =>
  halves(levels) ? `${number(starsOf(level, levels), 1)} of 5 stars` : `${level + 1} of ${levels}`;

/** "4 ★", or "6/7" on another scale. */
export const short = (level, levels) =>
  halves(levels) ? `${number(starsOf(level, levels), 1)}\u00a0★` : `${level + 1}/${levels}`;

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** "The Sheriff (1962)" -> ["The Sheriff", 1962]: as catalogues write titles. */
export const split = (title, year) => {
  const found = /^(.+?)\s*\((\d{4})\)\s*$/.exec(title);
  return [found?.[1] ?? title, year ?? (found ? Number(found[2]) : null)];
};

/** A message of a program as a sentence. */
export const sentence = (text) =>
  text &&
  `${text.charAt(0).toLocaleUpperCase("en")}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

export const listed = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
