// A client of an edge, for programs of the site: it knows user ids in clear.
//
//   const edge = new Edge("http://127.0.0.1:8490", { token });
//   await edge.events({ user: "cust-44", item: "SKU-2571", type: "purchase" });
//   const { items } = await edge.recommend("cust-44", { n: 5, category: "Shoes" });
//
// Each event gets a key, unless it has one: sent again after 503 or a lost answer, it counts once.
// Ids are text, and stand in the query: a browser would make another path of /users/.. .

const RETRIES = 5;

// A number beyond 2^53 has lost digits before it comes here.
const text = (id) => {
  if (["string", "bigint"].includes(typeof id) || Number.isSafeInteger(id)) return String(id);
  throw new TypeError("an id is text, as in \"9007199254740993\"");
};

const key = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

/** A refusal: its status, its reason and one sentence. */
export class Refused extends Error {
  constructor(status, { error = "no answer", reason = "request", refused = [] } = {}) {
    super(refused.length ? `${error}: row ${refused[0].row}: ${refused[0].error}` : error);
    Object.assign(this, { status, reason, refused });
  }
}

export class Edge {
  constructor(url = "", { token = null, retries = RETRIES } = {}) {
    Object.assign(this, { url: url.replace(/\/$/, ""), token, retries });
  }

  /** Send one event or several; resolves when they are durable. */
  events(events) {
    const rows = (Array.isArray(events) ? events : [events]).map((row) => ({
      ...row,
      user: text(row.user),
      item: text(row.item),
      key: row.key || key(),
    }));
    return this.ask("POST", "/events", {}, rows);
  }

  /** The list of a user; `wish`: n, category, not_category, filter, exclude, for, diversity, ... */
  recommend(user, wish = {}) {
    return this.ask("GET", "/recommendations", { ...wish, user: text(user) });
  }

  /** The list of a visitor without an account, by what was looked at; it is kept nowhere. */
  session(items, wish = {}) {
    return this.ask("POST", "/recommendations", {}, { ...wish, items: items.map(text) });
  }

  similar(item, wish = {}) {
    return this.ask("GET", "/similar", { ...wish, item: text(item) });
  }

  popular(wish = {}) {
    return this.ask("GET", "/popular", wish);
  }

  latest(wish = {}) {
    return this.ask("GET", "/latest", wish);
  }

  /** Write items: an array of objects, or a file of the given type, or its text. */
  putItems(items, type = "text/csv") {
    return this.ask("POST", "/items", {}, items, Array.isArray(items) ? "application/json" : type);
  }

  removeItem(item) {
    return this.ask("DELETE", "/items", { item: text(item) });
  }

  user(user) {
    return this.ask("GET", "/users", { user: text(user) });
  }

  exportUser(user) {
    return this.ask("GET", "/export", { user: text(user) });
  }

  deleteUser(user) {
    return this.ask("DELETE", "/users", { user: text(user) });
  }

  async ask(method, path, query = {}, body = undefined, type = "application/json") {
    const given = [];
    for (const [name, value] of Object.entries(query))
      for (const each of Array.isArray(value) ? value : [value])
        if (each !== undefined && each !== null && each !== "")
          given.push(`${name}=${encodeURIComponent(each)}`); // refuses a lone surrogate
    const headers = body === undefined ? {} : { "Content-Type": type };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const asIs = body === undefined || typeof body === "string" || body instanceof Blob;
    const sent = asIs ? body : JSON.stringify(body);
    const address = `${this.url}${path}${given.length ? `?${given.join("&")}` : ""}`;
    for (let left = this.retries; ; left -= 1) {
      const reply = await fetch(address, { method, headers, body: sent, credentials: "omit" });
      if (reply.status === 503 && left > 0) {
        const seconds = Math.min(Number(reply.headers.get("Retry-After")) || 1, 10);
        await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
        continue;
      }
      const value = await reply.json().catch(() => ({}));
      if (!reply.ok) throw new Refused(reply.status, value);
      return value;
    }
  }
}
