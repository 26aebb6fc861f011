// What the device takes part in besides single ratings: a line, and a switch.

import { byId, say } from "./dom.js";
import { sentence } from "./words.js";

const words = ({ on, sent, campaign, problem }) => {
  if (problem) return sentence(problem);
  if (!campaign?.phase) return "No campaign is under way.";
  const { plan, stage, phase } = campaign;
  const waiting = on && phase === "open" ? "yours goes within minutes" : phase;
  const does = sent ? "your part is sent" : waiting;
  return (
    `Campaign ${plan.number}, stage ${stage + 1} of ${plan.stages.length}: ${does}. A whole ` +
    `campaign costs epsilon ${plan.epsilon} of the same budget, whatever you rated.`
  );
};

/** Draw the line; hidden where the page's host pins no campaigns. */
export const showPart = ({ part }) => {
  byId("part").hidden = !part;
  if (!part) return;
  byId("takes-part").checked = part.state.on;
  say("part-words", words(part.state));
};
