// Requests through a relay, which sees this browser's address and no contents, while the gateway
// sees contents and no address: Oblivious HTTP (RFC 9458), the seal of stream_app/web/.
// HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM; Binary HTTP (RFC 9292).

const X25519 = { name: "X25519" }, PADDED_TO = 1024;
const HEAD = Uint8Array.of(1, 0, 0x20, 0, 1, 0, 1); // key 1, then the three algorithms
const KEM = Uint8Array.of(0x4b, 0x45, 0x4d, 0, 0x20); // "KEM" and its number
const SUITE = bytes("HPKE", HEAD.subarray(1));
const UNREAD = "the reply of the relay does not open: it is damaged or forged";

/** The parts one after the other; a text as UTF-8. */
function bytes(...parts) {
  const all = parts.map((part) => typeof part === "string" ? new TextEncoder().encode(part) : part);
  const joined = new Uint8Array(all.reduce((length, part) => length + part.length, 0));
  all.reduce((at, part) => (joined.set(part, at), at + part.length), 0);
  return joined;
}

// --- Binary HTTP

const integer = (value) => {
  if (value < 64) return Uint8Array.of(value);
  if (value < 16384) return Uint8Array.of(0x40 | value >> 8, value & 255);
  return Uint8Array.of(0x80 | value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255);
};
const part = (value) => bytes(integer(bytes(value).length), value);

/** The bytes of a request without padding; `headers` are pairs. */
export const encodeRequest = (method, path, headers, content, authority = "") =>
  bytes(Uint8Array.of(0), ...[method, "https", authority, path].map(part),
    part(bytes(...headers.flat().map(part))), part(content), Uint8Array.of(0));

/** The response in some bytes: {status, headers, content}. */
export function decodeResponse(message) {
  let left = message;
  const take = (length) => {
    if (length > left.length) throw new Error(UNREAD);
    const taken = left.subarray(0, length);
    left = left.subarray(length);
    return taken;
  };
  const number = () => {
    const [first, ...rest] = take(left.length ? 1 << (left[0] >> 6) : 1);
    return rest.reduce((value, byte) => 256 * value + byte, first & 63);
  };
  const text = () => String.fromCharCode(...take(number()));
  if (number() !== 1) throw new Error(UNREAD);
  const status = number(), headers = [], end = left.length ? number() : 0;
  for (const after = left.length - end; left.length > after;) headers.push([text(), text()]);
  return { status, headers, content: left.length ? take(number()) : left };
}

// --- HPKE

async function hmac(key, ...parts) {
  const raw = key.length ? key : new Uint8Array(32); // the same key of HMAC; none is refused
  const form = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", raw, form, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, bytes(...parts)));
}
const NONE = new Uint8Array();
const extract = (suite, salt, label, secret) => hmac(salt, "HPKE-v1", suite, label, secret);
const expand = async (suite, key, label, info, length) =>
  (await hmac(key, Uint8Array.of(0, length), "HPKE-v1", suite, label, info, Uint8Array.of(1)))
    .subarray(0, length);
const cipher = (key, usage) => crypto.subtle.importKey("raw", key, "AES-GCM", false, [usage]);

/** Seals a request to a public key of 32 bytes: {sealed, open}; `open` takes the sealed response.
 *  A test gives the `pair` of keys, which is new for every request otherwise. */
export async function sealRequest(publicKey, request, pair) {
  const { privateKey, publicKey: own } =
    pair ?? await crypto.subtle.generateKey(X25519, false, ["deriveBits"]);
  const other = await crypto.subtle.importKey("raw", publicKey, X25519, true, []);
  const enc = new Uint8Array(await crypto.subtle.exportKey("raw", own));
  const shared = new Uint8Array(
    await crypto.subtle.deriveBits({ ...X25519, public: other }, privateKey, 256));
  const early = await extract(KEM, NONE, "eae_prk", shared);
  const agreed = await expand(KEM, early, "shared_secret", bytes(enc, publicKey), 32);
  const info = bytes("message/bhttp request", Uint8Array.of(0), HEAD);
  const context = bytes(Uint8Array.of(0), await extract(SUITE, NONE, "psk_id_hash", NONE),
    await extract(SUITE, NONE, "info_hash", info));
  const secret = await extract(SUITE, agreed, "secret", NONE);
  const derived = (label, length) => expand(SUITE, secret, label, context, length);
  const algorithm = { name: "AES-GCM", iv: await derived("base_nonce", 12) };
  const key = await cipher(await derived("key", 16), "encrypt");
  const content = new Uint8Array(await crypto.subtle.encrypt(algorithm, key, request));
  const exporter = await derived("exp", 32);
  const way = await expand(SUITE, exporter, "sec", "message/bhttp response", 16);
  return { sealed: bytes(HEAD, enc, content), open: (reply) => opened(enc, way, reply) };
}

/** The response in a sealed reply (RFC 9458, 4.4). */
async function opened(enc, secret, reply) {
  const derived = await hmac(bytes(enc, reply.subarray(0, 16)), secret);
  const [key, iv] = await Promise.all(
    ["key", "nonce"].map((label) => hmac(derived, label, Uint8Array.of(1))));
  const algorithm = { name: "AES-GCM", iv: iv.subarray(0, 12) };
  const content = crypto.subtle.decrypt(algorithm, await cipher(key.subarray(0, 16), "decrypt"),
    reply.subarray(16));
  return new Uint8Array(await content.catch(() => { throw new Error(UNREAD); }));
}

// --- fetch

/** A function to use as `fetch`, which sends through the relay at an address. `gatewayKey`: the
 *  gateway's public key, 64 hex digits, from its operator and not from the relay. What the gateway
 *  did not seal is no answer of it: it becomes 502, after which the same is sent later. */
export function relayed(relay, gatewayKey) {
  if (!/^[0-9a-f]{64}$/.test(gatewayKey))
    throw new Error("the gateway's key is not one of 64 hex digits: take it from its operator");
  const publicKey = Uint8Array.from(gatewayKey.match(/../g), (byte) => parseInt(byte, 16));
  return async (url, { method = "GET", headers = {}, body = "", signal } = {}) => {
    const { pathname, search } = new URL(url, location.href), fields = [...new Headers(headers)];
    const request = encodeRequest(method, pathname + search, fields, bytes(body));
    const padding = new Uint8Array((PADDED_TO - request.length % PADDED_TO) % PADDED_TO);
    const { sealed, open } = await sealRequest(publicKey, bytes(request, padding));
    const reply = await fetch(`${relay}/ohttp`, { method: "POST", body: sealed, signal,
      headers: { "Content-Type": "message/ohttp-req" }, credentials: "omit", cache: "no-store",
      referrerPolicy: "no-referrer" });
    if (reply.status !== 200) {
      const error = reply.status !== 400 ? `the relay has no answer (${reply.status})` :
        `the gateway does not open what is sealed to ${gatewayKey}: take its key again`;
      return new Response(JSON.stringify({ error }),
        { status: 502, headers: { "Retry-After": reply.headers.get("Retry-After") ?? "60" } });
    }
    const found = decodeResponse(await open(new Uint8Array(await reply.arrayBuffer())));
    const content = [204, 304].includes(found.status) ? null : found.content;
    return new Response(content, found);
  };
}
