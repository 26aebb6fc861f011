// The page of an edge. Every text is set as text: a title of the catalogue is never markup.

import { Edge } from "./edge.js";

const EVERY_MS = 5000;
const edge = new Edge();
const byId = (id) => document.getElementById(id);
const value = (id) => byId(id).value.trim();
const exact = (id) => byId(id).value; // of an id: every byte counts

const el = (tag, ...children) => {
  const node = document.createElement(tag);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
};

const say = (id, text) => {
  byId(id).textContent = text;
};

const problem = (text) => {
  byId("problem").hidden = !text;
  say("problem", text);
};

const on = (id, kind, act) =>
  byId(id).addEventListener(kind, async (event) => {
    event.preventDefault();
    try {
      await act();
      problem("");
    } catch (error) {
      failed(error);
    }
  });

const failed = (error) => {
  byId("signin").hidden = error.status !== 401;
  problem(error.message);
};

const row = (shown) => {
  const notes = [
    shown.categories.join(", "),
    shown.because.length ? `because of ${shown.because.join(", ")}` : "",
  ].filter(Boolean);
  return el("li", shown.title || shown.item, " ", el("small", [shown.item, ...notes].join(" · ")));
};

const ask = () => {
  const about = exact("about");
  const wish = { n: 10, category: value("category"), filter: value("filter") };
  const items = about.split(",").filter(Boolean);
  if (byId("kind").value === "session")
    return edge.session(items, {
      ...(wish.category ? { category: [wish.category] } : {}),
      ...(wish.filter ? { filter: wish.filter } : {}),
    });
  const asked = { user: "recommend", similar: "similar" }[byId("kind").value];
  if (asked && !about) throw new Error("Give a user, or an item.");
  return asked ? edge[asked](about, wish) : edge[byId("kind").value](wish);
};

on("ask", "submit", async () => {
  const list = await ask();
  const known = `${list.known} of ${list.rated} items of the history`;
  say("by", `Ranked by ${list.ranked_by}, model ${list.model}; ${known}; list ${list.list}`);
  byId("list").replaceChildren(...list.items.map(row));
  if (!list.items.length) say("by", "No item is left: the filter leaves none, or all are read.");
});

on("event", "submit", async () => {
  const event = { user: exact("user"), item: exact("item"), type: value("type") };
  if (value("value")) event.value = Number(value("value"));
  const { accepted } = await edge.events(event);
  say("sent", accepted ? "Durable." : "It was here before.");
  const text = `${event.user}: ${event.type} ${event.item} ${event.value ?? ""}`;
  byId("events").prepend(el("li", text));
});

on("import", "submit", async () => {
  const file = byId("file").files[0];
  const ends = file.name.toLowerCase().split(".").pop();
  const types = { json: "application/json", ndjson: "application/x-ndjson", jsonl: "application/x-ndjson" };
  const found = await edge.putItems(file, types[ends] ?? "text/csv");
  const columns = Object.entries(found.recognised).map(([name, use]) => `${name}: ${use}`);
  const left = found.refused.length + (found.unlisted ?? 0);
  say("imported", `${found.stored} items; ${left} rows refused; ${columns.join(", ")}`);
  await refresh();
});

on("known", "submit", async () => {
  byId("record").hidden = false;
  say("record", JSON.stringify(await edge.user(exact("whose")), null, 2));
});

on("export", "click", async () => {
  byId("record").hidden = false;
  say("record", JSON.stringify(await edge.exportUser(exact("whose")), null, 2));
});

on("delete", "click", async () => {
  if (!confirm("Delete everything of this user? This cannot be undone.")) return;
  byId("record").hidden = false;
  say("record", JSON.stringify(await edge.deleteUser(exact("whose")), null, 2));
});

on("signin", "submit", async () => {
  edge.token = value("token");
  await refresh();
});

const shownValue = (given) =>
  given?.low !== undefined
    ? `${given.value.toFixed(3)} (${given.low.toFixed(3)} to ${given.high.toFixed(3)})`
    : given !== null && typeof given === "object"
      ? JSON.stringify(given)
      : String(given ?? "–");

const table = (id, rows) => {
  const names = Object.keys(rows[0] ?? {});
  byId(id).replaceChildren(
    el("thead", el("tr", names.map((name) => el("th", name)))),
    el(
      "tbody",
      rows.map((each) => el("tr", names.map((name) => el("td", shownValue(each[name]))))),
    ),
  );
};

const refresh = async () => {
  const status = await edge.ask("GET", "/status");
  byId("signin").hidden = true;
  say("live", `${status.accounts} accounts; ${status.lists.problem ?? "all is there"}`);
  const shown = { ...status.terms, ...status.reporting };
  byId("terms").replaceChildren(
    ...Object.entries(shown).flatMap(([name, given]) => [
      el("dt", name.replaceAll("_", " ")),
      el("dd", shownValue(given)),
    ]),
  );
  const [latest, accounts, quality] = await Promise.all([
    edge.latest({ n: 8 }),
    edge.ask("GET", "/accounts", { n: 8 }),
    edge.ask("GET", "/quality"),
  ]);
  byId("newest").replaceChildren(...latest.items.map(row));
  table("accounts", accounts.accounts);
  table("quality", quality.models);
  table("comparisons", quality.comparisons);
};

// After a failure the page asks again, but not while a token is typed.
const watch = async () => {
  if (byId("signin").hidden)
    await refresh().catch((error) => {
      say("live", "no answer");
      failed(error);
    });
  setTimeout(watch, EVERY_MS);
};
watch();
