// What the key of a device makes: its name at the server, and the tags of its messages, by which
// it alone knows them again. In Python: producers/pseudonyms.py, producers/journal/journal.py.

/** The server's name of a user: HMAC-SHA256 with a key of 32 bytes, its first 16 bytes in hex. */
export async function pseudonym(keyBytes, user) {
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", keyBytes, hmac, false, ["sign"]);
  return hex(await crypto.subtle.sign(hmac, key, new TextEncoder().encode(user)));
}
const hex = (buffer) => Array.from(new Uint8Array(buffer, 0, 16),
  (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The tag of a message, which this key alone can make; no user id holds a NUL. */
const tagOf = (key, path, digest) => pseudonym(key, `\0${path} ${digest}`);
/** The content type of a message to a path, with its tag: a gateway shows it where other bytes take
 *  the place of this message's, and `isOwn` knows by it whether those are this device's. */
export const tagged = async (key, path, type, body) =>
  `${type}; tag=${await tagOf(key, path, await digestOf(body))}`;
/** An echo of the message itself proves nothing. */
export async function isOwn(key, path, held, body) {
  const digest = `${held}`.slice(0, 32);
  return digest !== await digestOf(body) && `${held}`.slice(32) === await tagOf(key, path, digest);
}
const digestOf = async (body) => hex(await crypto.subtle.digest("SHA-256",
  typeof body === "string" ? new TextEncoder().encode(body) : body));
