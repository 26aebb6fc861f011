// The stream: what the server learns from everybody, with the baseline of each number.

import { el, fill, say } from "./dom.js";
import { number } from "./words.js";

const FIGURES = [
  [
    "Ratings a second",
    (s) => number(s.ratings_per_second),
    (s) =>
      s.ratings == null
        ? "arriving now"
        : `${number(s.ratings)} so far${s.devices == null ? "" : `, from ${number(s.devices)} devices`}`,
    "Each is a noised answer like yours.",
  ],
  [
    "Error of a predicted rating",
    (s) => number(s.rmse, 3),
    (s) =>
      s.rmse_baseline == null ? null : `${number(s.rmse_baseline, 3)} by each film’s average`,
    "In stars (RMSE, corrected for the noise); below the average’s error, it has learned taste.",
  ],
  [
    "Quality of the lists",
    (s) => number(s.ndcg, 3),
    (s) => (s.ndcg_popular == null ? null : `${number(s.ndcg_popular, 3)} by popularity alone`),
    "How well lists foretell what is liked at a later visit (nDCG, 1 is perfect).",
  ],
  [
    "Learned by heart",
    (s) => number(s.kl_nats, 3),
    () => "0 is best",
    "How differently the model treats answers it has learned and answers kept from it (KL, nats).",
  ],
  [
    "Drift",
    (s) => (typeof s.drift === "boolean" ? (s.drift ? "yes" : "no") : number(s.drift, 2)),
    () => null,
    "Whether taste as a whole is changing.",
  ],
];

const figure = (status, [name, value, baseline, meaning]) =>
  el(
    "div",
    {},
    el("dt", {}, name),
    el(
      "dd",
      { class: "value" },
      value(status) === "–" ? el("small", {}, "not known yet") : value(status),
    ),
    baseline(status) ? el("dd", { class: "baseline" }, baseline(status)) : null,
    el("dd", { class: "quiet" }, meaning),
  );

const liveWords = (status) => {
  if (!status) return "the gateway does not answer";
  if (!status.kafka) return "Kafka is away";
  if (!status.worker) return "the server is away";
  if (!status.ready) return status.waiting_for ? `starting: ${status.waiting_for}` : "starting";
  return "live";
};

/** Draw the numbers of one status, or that there is none. */
export const showStream = (status) => {
  fill(
    "figures",
    FIGURES.map((row) => figure(status ?? {}, row)),
  );
  const live = document.getElementById("live");
  live.classList.toggle("on", liveWords(status) === "live");
  say("live", liveWords(status));
};

/** Follow the stream while the page is looked at: a browser has few connections to a host. */
export const follow = (show) => {
  let source = null;
  const open = () => {
    source ??= new EventSource("stream");
    source.addEventListener("status", (event) => show(JSON.parse(event.data)));
    source.addEventListener("error", () => show(null));
  };
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  if (!document.hidden) open();
};
