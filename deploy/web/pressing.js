// A click is lost where what was pressed is redrawn, or moved by what is drawn above it, before it
// is released: from when a button or a finger is down to its click, nothing is drawn.

const CLICK = 100; // milliseconds: that of a finger is no part of the release, but comes after it

let pressed = false, timer = 0;
const due = new Set();

const drawDue = () => {
  [pressed, timer] = [false, 0];
  const now = [...due];
  due.clear();
  for (const draw of now) draw();
};

// A release outside of the window is seen when the pointer is back.
const follow = ({ buttons }) => {
  if (buttons) {
    clearTimeout(timer);
    [pressed, timer] = [true, 0];
  } else if (pressed) timer ||= setTimeout(drawDue, CLICK); // where no click comes
};
for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"])
  addEventListener(name, follow, true);
addEventListener("click", () => {
  if (!pressed) return;
  clearTimeout(timer);
  [pressed, timer] = [false, setTimeout(drawDue)]; // what the click itself changes is drawn at once
}, true);

/** A function that draws now, or once the pointer is released. */
export const unlessPressed = (draw) => {
  const drawing = () => (pressed ? due.add(drawing) : draw());
  return drawing;
};
