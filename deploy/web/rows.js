// Films in a box that a person uses: each keeps its node while it shows the same, so that a choice
// and the focus survive, and its place from the first use on, so that nobody hits another film.

import { byId, el, fill } from "./dom.js";

export class Rows {
  #nodes = new Map(); // key -> {state, node}
  #of = null;
  #films = [];
  #used = false;

  constructor(id) {
    this.box = byId(id);
    for (const use of ["pointerdown", "focusin"])
      this.box.addEventListener(use, () => (this.#used = true));
  }

  /** Let the next order take effect. */
  release() {
    this.#used = false;
    this.#of = null;
  }

  /** The catalogue as `arrange` orders it; once a film was used, those shown before stay first. */
  inOrder(catalogue, arrange = (films) => films) {
    if (this.#of === catalogue) return this.#films;
    let films = arrange(catalogue);
    if (this.#used) {
      const places = new Map(this.#films.map(({ key }, n) => [key, n]));
      const place = ({ key }) => places.get(key) ?? places.size;
      films = films.toSorted((a, b) => place(a) - place(b));
    }
    [this.#of, this.#films] = [catalogue, films];
    return films;
  }

  /** Show films; one is made anew by `make` where `stateOf` says something else of it. Without any,
   *  words say why. */
  show(films, stateOf, make, any) {
    const { box } = this;
    const shown = (film) => renewed(this.#nodes.get(film.key), film, stateOf, make);
    this.#nodes = new Map(films.map((film) => [film.key, shown(film)]));
    if (!films.length) {
      const words = any
        ? "No film has these words."
        : "No films yet: the catalogue is still arriving.";
      return fill(box, el("p", { class: "quiet" }, words));
    }
    const nodes = [...this.#nodes.values()].map(({ node }) => node), kept = new Set(nodes);
    for (const child of [...box.children]) if (!kept.has(child)) child.remove();
    nodes.forEach((node, n) => {
      if (box.children[n] !== node) box.insertBefore(node, box.children[n] ?? null);
    });
  }
}

/** What a film shows now: its node of before, or another in its place that has the focus of it. */
const renewed = (before, film, stateOf, make) => {
  const state = JSON.stringify(stateOf(film));
  if (before?.state === state) return before;
  const node = make(film), focused = before?.node.contains(document.activeElement);
  before?.node.replaceWith(node);
  if (focused) (node.querySelector("input:checked") ?? node.querySelector("input"))?.focus();
  return { state, node };
};
