// The three tabs. The address says which one is open, so that the back button, a reload and a link
// lead there: https://www.w3.org/WAI/ARIA/apg/patterns/tabs/ with selection that follows the focus.

import { byId } from "./dom.js";

export const TABS = ["yours", "reports", "operators"]; // no element has such an id: nothing jumps

const named = () => location.hash.slice(1);
let open = TABS.includes(named()) ? named() : TABS[0];

/** The tab that is open. */
export const openTab = () => open;

const show = (focus) => {
  for (const name of TABS) {
    const tab = byId(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === open));
    tab.tabIndex = name === open ? 0 : -1;
    byId(`panel-${name}`).hidden = name !== open;
  }
  if (focus) byId(`tab-${open}`).focus();
};

const KEYS = {
  ArrowRight: (place) => place + 1,
  ArrowLeft: (place) => place - 1,
  Home: () => 0,
  End: () => TABS.length - 1,
};

/** Show the tab of the address, and call `changed` when another one is opened. */
export const listenToTabs = (changed) => {
  const go = (name, focus) => {
    if (name === open) return;
    open = name;
    show(focus);
    changed();
  };
  const chosen = (name, focus) => {
    if (name !== open) history.pushState(null, "", `#${name}`);
    go(name, focus);
  };
  for (const name of TABS) {
    byId(`tab-${name}`).addEventListener("click", () => chosen(name, false));
    byId(`tab-${name}`).addEventListener("keydown", (event) => {
      const place = KEYS[event.key]?.(TABS.indexOf(name));
      if (place === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      chosen(TABS[(place + TABS.length) % TABS.length], true);
    });
  }
  // Back, forward, and links to a tab; another fragment leads to a place and leaves the tab.
  const followed = () => {
    if (TABS.includes(named()) || !named()) go(named() || TABS[0], false);
  };
  addEventListener("popstate", followed);
  addEventListener("hashchange", followed);
  show(false);
};
