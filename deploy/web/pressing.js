// A click is lost where what was pressed is redrawn, or moved by what is drawn above it, before it
// is released: while a button is down, or a finger, nothing is drawn.

let pressed = false;
const due = new Set();

const drawDue = () => {
  const now = [...due];
  due.clear();
  for (const draw of now) draw();
};

// A release outside of the window is seen when the pointer is back.
const follow = ({ buttons }) => {
  pressed = Boolean(buttons);
  if (!pressed && due.size) setTimeout(drawDue); // after the click
};
for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"])
  addEventListener(name, follow, true);

/** A function that draws now, or once the pointer is released. */
export const unlessPressed = (draw) => {
  const drawing = () => (pressed ? due.add(drawing) : draw());
  return drawing;
};
