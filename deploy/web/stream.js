// The stream: what the server learns from everybody, with the baseline of each number.

import { byId, el, fill, say } from "./dom.js";
import { number } from "./words.js";

const interval = ({ ndcg_error: error, list_devices: people }) =>
  [
    Number.isFinite(error) ? `, ± ${number(2 * error, 3)}` : "",
    people == null ? "" : `, on ${number(people)} people`,
  ].join("");

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
    (s) =>
      s.ndcg_popular == null
        ? null
        : `${number(s.ndcg_popular, 3)} by popularity alone${interval(s)}`,
    "How well lists foretell what is liked at a later visit (nDCG, 1 is perfect).",
  ],
  [
    "Lag",
    (s) => (s.lag_seconds == null ? "–" : `${number(s.lag_seconds, 1)} s`),
    (s) => (s.lag_records == null ? null : `${number(s.lag_records)} records not yet applied`),
    "Age of the oldest answer that the model has not learned.",
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
    "How much worse the newest ratings are predicted than those before, in stars.",
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

// The limits of deploy/alerts.yml, on what the page sees; Prometheus waits before it calls.
const ALERTS = [
  [(s) => s.lag_seconds > 60, "MurmurecConsumerLag", "ratings wait for more than a minute"],
  [
    (s) => s.rmse_baseline != null && s.rmse > 1.02 * s.rmse_baseline,
    "MurmurecErrorAboveBaseline",
    "predictions are worse than each film’s average",
  ],
  [
    (s) => s.ndcg != null && s.ndcg < 0.95 * s.ndcg_popular && s.list_devices > 200,
    "MurmurecListsBelowPopular",
    "lists are worse than what is popular",
  ],
  [(s) => s.kl_nats > 0.1, "MurmurecLeakageHigh", "the model treats what it has learned otherwise"],
];

const alerts = (status) => {
  const live = liveWords(status);
  const known = status ?? {};
  return [
    live === "live" ? null : ["MurmurecWorkerNotReady", live],
    ...ALERTS.filter(([holds]) => holds(known)).map(([, name, words]) => [name, words]),
  ].filter(Boolean);
};

const showAlerts = (status) => {
  const found = alerts(status);
  fill(
    "alerts",
    found.length
      ? el("ul", {}, found.map(([name, words]) => el("li", {}, el("b", {}, name), `: ${words}`)))
      : el("p", {}, "Nothing."),
    el(
      "p",
      { class: "quiet" },
      "The limits of deploy/alerts.yml, on the numbers above.",
    ),
  );
};

/** Link to Grafana where the gateway knows it; a page may be another's, so the address is looked at. */
export const showBoards = ({ offered }) => {
  const { grafana } = offered ?? {};
  byId("boards").hidden = !/^https?:\/\//.test(grafana ?? "");
  if (!byId("boards").hidden) byId("boards").firstElementChild.href = grafana;
};

/** Draw the numbers of one status, or that there is none. */
export const showStream = (status) => {
  fill(
    "figures",
    FIGURES.map((row) => figure(status ?? {}, row)),
  );
  showAlerts(status);
  const live = byId("live");
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
