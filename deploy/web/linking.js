// The film under the pointer or the focus is marked in every column: one rating, seen three ways.

const mark = (event) => {
  const key = event.target.closest?.("[data-key]")?.dataset.key;
  for (const node of document.querySelectorAll(
    "#films [data-key], #events [data-key], #beliefs [data-key]",
  )) {
    node.classList.toggle("linked", node.dataset.key === key);
  }
};

/** Follow pointer and focus. */
export const linkColumns = () => {
  document.addEventListener("pointerover", mark);
  document.addEventListener("focusin", mark);
};
