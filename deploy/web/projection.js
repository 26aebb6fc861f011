// Two dimensions of many: the principal axes of the films' factors (Pearson 1901), by power
// iteration from a fixed start, so that the same table gives the same map on every device.

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

const normal = (vector) => {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((x) => x / length);
};

/** The two directions (r,) in which rows (n of r numbers) vary most, at right angles. */
export const axesOf = (rows) => {
  const r = rows[0].length;
  const mean = rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);
  const centred = rows.map((row) => row.map((x, i) => x - mean[i]));
  const axes = [];
  for (let axis = 0; axis < Math.min(2, r); axis++) {
    let found = normal(Array.from({ length: r }, (_, i) => 1 / (1 + i + axis)));
    for (let step = 0; step < 60; step++) {
      const next = new Array(r).fill(0);
      for (const row of centred) {
        const along = dot(row, found);
        row.forEach((x, i) => {
          next[i] += along * x;
        });
      }
      for (const earlier of axes) {
        const along = dot(next, earlier);
        earlier.forEach((x, i) => {
          next[i] -= along * x;
        });
      }
      found = normal(next);
    }
    axes.push(found);
  }
  return { mean, axes };
};

/** Where a row lies along the axes: [x, y]. */
export const placed = ({ mean, axes }, row) =>
  [0, 1].map((axis) =>
    axes[axis]
      ? dot(
          row.map((x, i) => x - mean[i]),
          axes[axis],
        )
      : 0,
  );
