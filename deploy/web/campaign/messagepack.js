// MessagePack as campaigns publish it; it needs no other module.

/** The value of MessagePack bytes, without extensions; an integer beyond 2^53 is a BigInt. */
export const decode = (bytes) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let place = 0;
  const number = (name, size) => { place += size; return Number(view[name](place - size)); };
  const length = (power) => number(["getUint8", "getUint16", "getUint32"][power], 2 ** power);
  const taken = (size) => {
    if (place + size > bytes.length) throw new Error("a side that ends too early");
    return bytes.subarray(place, place += size);
  };
  const text = (size) => new TextDecoder().decode(taken(size));
  const list = (size) => { const all = []; while (size-- > 0) all.push(value()); return all; };
  const map = (size) => {
    const all = {};
    while (size-- > 0) { const name = value(); all[name] = value(); }
    return all;
  };
  const value = () => {
    const kind = length(0);
    if (kind < 0x80) return kind;
    if (kind < 0x90) return map(kind - 0x80);
    if (kind < 0xa0) return list(kind - 0x90);
    if (kind < 0xc0) return text(kind - 0xa0);
    if (kind < 0xc4) return [null, undefined, false, true][kind - 0xc0];
    if (kind < 0xc7) return taken(length(kind - 0xc4));
    if (kind === 0xcb) return number("getFloat64", 8);
    if (kind >= 0xcc && kind < 0xcf) return length(kind - 0xcc);
    if (kind === 0xcf) {
      const found = view.getBigUint64((place += 8) - 8);
      return found > Number.MAX_SAFE_INTEGER ? found : Number(found);
    }
    if (kind >= 0xd9 && kind < 0xdc) return text(length(kind - 0xd9));
    if (kind === 0xdc || kind === 0xdd) return list(length(kind - 0xdb));
    if (kind === 0xde || kind === 0xdf) return map(length(kind - 0xdd));
    throw new Error(`a side holds no MessagePack of kind ${kind}`);
  };
  return value();
};
