// A cover for each film, drawn from what is public of it: the genre gives colours and a motif, the
// key turns and moves both, so that no two look alike and each looks the same everywhere. The words
// are text nodes: a title never becomes markup.

import { svg } from "./dom.js";

const WIDTH = 120, HEIGHT = 160; // of the drawing
const LINE = 13, MOST_LINES = 4; // letters of a line of the title, lines

// Hue, and paths in a box of 100 x 100: filled ones, and after "|" those that are lines.
const MOTIFS = {
  western: [28, "M38 92V30a12 12 0 0 1 24 0v62zM18 62V44a6 6 0 0 1 12 0v10h10v12H24a6 6 0 0 1-6-4zM82 54V38a6 6 0 0 0-12 0v10H60v12h16a6 6 0 0 0 6-6z|M0 92H100"],
  mystery: [262, "M42 12a28 28 0 1 1-.1 0zM62 60l28 28-8 8-28-28z|M30 36a14 14 0 0 1 14-12"],
  space: [226, "M50 24a26 26 0 1 1-.1 0zM12 14l3 6 6 3-6 3-3 6-3-6-6-3 6-3zM86 76l2 5 5 2-5 2-2 5-2-5-5-2 5-2z|M6 66C30 74 76 56 96 30"],
  romance: [344, "M50 88C10 58 8 36 20 24s26-4 30 10c4-14 18-22 30-10s10 34-30 64z"],
  musical: [300, "M32 66a13 11 0 1 0 .1 0zM76 56a13 11 0 1 0 .1 0z|M44 76V22l44-8v52M44 36l44-8"],
  war: [84, "M14 78h72l-8 14H22zM26 62h48v12H26zM40 48h22v12H40z|M60 53L96 34"],
  comedy: [44, "M50 10a40 40 0 1 1-.1 0zM34 36a5 7 0 1 0 .1 0zM66 36a5 7 0 1 0 .1 0zM26 58h48a24 24 0 0 1-48 0z"],
  horror: [2, "M20 96V44a30 30 0 0 1 60 0v52l-10-10-10 10-10-10-10 10-10-10zM40 40a6 9 0 1 0 .1 0zM62 40a6 9 0 1 0 .1 0z"],
  fantasy: [284, "M50 4l12 30 32 2-25 20 8 32-27-18-27 18 8-32L6 36l32-2z"],
  nature: [132, "M50 6l26 36H62l22 30H58v22H42V72H16l22-30H24z"],
  crime: [208, "M22 50h56v40H22zM46 64h8v14h-8z|M32 50V34a18 18 0 0 1 36 0v16"],
  sport: [18, "M50 10a40 40 0 1 1-.1 0z|M10 50H90M50 10V90M22 22C42 40 42 60 22 78M78 22C58 40 58 60 78 78"],
  action: [8, "M58 4L18 56h24l-8 40 48-56H54z"],
  adventure: [164, "M50 8a42 42 0 1 1-.1 0zM66 34L56 58 34 66l10-24z"],
  animation: [190, "M8 56a22 22 0 1 1 44 0 22 22 0 1 1-44 0zM44 20h46v46H44zM60 62l30 32H30z"],
  documentary: [110, "M12 28h54v44H12zM70 42l22-14v44L70 58z"],
  drama: [318, "M12 14h40v30a20 24 0 0 1-40 0zM52 34h36v30a18 24 0 0 1-36 0z"],
  other: [240, "M10 20h80v60H10zM18 26h8v8h-8zM18 46h8v8h-8zM18 66h8v8h-8zM74 26h8v8h-8zM74 46h8v8h-8zM74 66h8v8h-8z"],
};
const SAME = {
  "sci-fi": "space", thriller: "crime", "film-noir": "mystery", "children's": "animation",
  children: "animation", family: "animation", music: "musical", "science fiction": "space",
};

const genreOf = (genres) => {
  const names = genres.map((genre) => genre.toLowerCase()).map((name) => SAME[name] ?? name);
  return names.find((name) => Object.hasOwn(MOTIFS, name)) ?? "other";
};

/** The title in lines; the last one ends with "…" where words are left over. */
const linesOf = (title) => {
  const lines = [];
  for (const word of title.split(/\s+/).filter(Boolean)) {
    const joined = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && joined.length <= LINE) lines[lines.length - 1] = joined;
    else lines.push(word.length > LINE ? `${word.slice(0, LINE - 1)}…` : word);
  }
  if (lines.length <= MOST_LINES) return lines;
  return [...lines.slice(0, MOST_LINES - 1), `${lines[MOST_LINES - 1].slice(0, LINE - 1)}…`];
};

/** The cover of a film {key, bare, genres, year}; without words where `small`. It is hidden from
 *  readers of the screen: the title stands beside it. */
export const cover = ({ key, bare, genres, year }, small = false) => {
  const bits = Number(BigInt(`0x${key}`) * 0x9e3779b97f4a7c15n >> 16n & 0xffffffn);
  const [hue, paths] = MOTIFS[genreOf(genres)], [filled, lines] = paths.split("|");
  const turn = hue + bits % 17 - 8, dark = 20 + (bits >> 5) % 8;
  const colour = (more, saturation, light) => `hsl(${turn + more} ${saturation}% ${light}%)`;
  const size = small ? 86 : 72 + (bits >> 8) % 16, tilt = (bits >> 12) % 13 - 6;
  const [x, y] = [(WIDTH - size) / 2 + ((bits >> 16) % 11 - 5), small ? 34 : 66];
  const words = small ? [] : linesOf(bare);
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "cover", "aria-hidden": "true" },
    svg("rect", { width: WIDTH, height: HEIGHT, fill: colour(0, 42, dark) }),
    svg("circle", { cx: (bits >> 3) % WIDTH, cy: 40 + (bits >> 10) % 90, r: 46 + (bits >> 7) % 24,
      fill: colour(24, 46, dark + 9) }),
    svg("g", { transform: `translate(${x} ${y}) rotate(${tilt} ${size / 2} ${size / 2}) ` +
      `scale(${size / 100})` },
      svg("path", { d: filled, fill: colour(-6, 58, 66), "fill-rule": "evenodd" }),
      lines ? svg("path", { d: lines, fill: "none", stroke: colour(40, 60, 80), "stroke-width": 5,
        "stroke-linecap": "round" }) : null),
    words.map((line, n) =>
      svg("text", { class: "cover-title", x: 9, y: 20 + 15 * n, fill: "#fff" }, line)),
    small || !year ? null
      : svg("text", { class: "cover-year", x: WIDTH - 8, y: HEIGHT - 8, fill: "#fff",
        "text-anchor": "end" }, String(year)));
};
