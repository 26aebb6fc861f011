// What stands in the way, in sentences with what happens next.

import { byId } from "./dom.js";
import { plural, sentence } from "./words.js";

/** Why this browser cannot keep anything, or an empty string. */
export const openingProblem = () => {
  if (!globalThis.isSecureContext || !globalThis.crypto?.subtle) {
    return (
      "Your browser gives its cryptography to secure pages alone: open this page over https, " +
      "or on the gateway's own machine as http://127.0.0.1. Until then nothing is drawn or sent."
    );
  }
  if (!globalThis.indexedDB)
    return "This browser keeps no database: without a journal nothing is sent.";
  return "";
};

/** Why no single rating can be reported from here, or an empty string. */
export const reportingProblem = (offered) => {
  if (offered?.devices === "signed") {
    return (
      "This deployment takes part with enrolled devices that sign what they send; a visitor's " +
      "browser is not enrolled, so this tab only shows what others do."
    );
  }
  const usable = ({ family, in_browser: here }) => here && family !== "like";
  if (!offered || offered.allowed.some(usable)) return "";
  const why = offered.allowed.find((mechanism) => mechanism.why_not)?.why_not;
  return `No single ratings are reported from this page${why ? `: ${why}` : "."}`;
};

const waitingWords = (view) => {
  const waiting = view.records.filter(({ place, refused }) => !place && !refused).length;
  const away = view.status && !view.status.kafka ? "Kafka is away." : "";
  const why = away || sentence(view.problems.get("sending") ?? "");
  if (!why) return "";
  return waiting
    ? `${why} ${plural(waiting, "answer")} waiting in this browser's journal: the same ` +
        "bytes are sent when it is back. You can go on rating."
    : why;
};

/** Show the problems there are, each once. */
export const showProblems = (view) => {
  const kept = [...view.problems]
    .filter(([name]) => name !== "sending")
    .map(([, words]) => sentence(words));
  const words = [...new Set([...kept, waitingWords(view)])].filter(Boolean).join(" ");
  const box = byId("problem");
  if (box.textContent !== words) box.textContent = words;
  box.hidden = !words;
};
