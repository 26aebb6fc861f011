// Elements without markup in strings: a title from the catalogue can never become markup.

const SVG = "http://www.w3.org/2000/svg";

const put = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
};

/** An element with attributes, listeners (`onclick`), and children; null children are left out. */
export const el = (tag, attributes = {}, ...children) =>
  put(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  put(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Replace the children of the element with this id, or of an element. */
export const fill = (target, ...children) => {
  const node = typeof target === "string" ? byId(target) : target;
  node.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return node;
};

/** Set the text of an element only where it changed: a live region speaks once. */
export const say = (id, text) => {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
};

/** A length by CSSOM: the page's policy forbids style attributes in markup. */
export const size = (node, property, share) => {
  node.style.setProperty(property, `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(2)}%`);
  return node;
};

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
