// Public features of items, bit for bit those of stream_app/campaigns/features.py.

const MOST_GENRES = 32, RARE = 0.1, UNIT = 64, SPAN = 3 * UNIT, SCALE = UNIT * UNIT;

/** {width, values}: features (items, width), row by row, of items {genres, year}, each maybe
 *  unknown. */
export const featuresOf = (described) => {
  const columns = wholeColumns(described), items = described.length, width = columns.length;
  const sums = columns.map((column) => column.reduce((sum, each) => sum + each, 0));
  const covariance = columns.map((one, j) => columns.map((other, k) => {
    const product = one.reduce((sum, each, i) => sum + each * other[i], 0);
    const centred = BigInt(items) * BigInt(product) - BigInt(sums[j]) * BigInt(sums[k]);
    return quotient(centred, BigInt(items * SCALE) ** 2n) + (j === k ? RARE : 0);
  }));
  const root = cholesky(covariance), values = new Float64Array(items * width);
  for (let i = 0; i < items; i++)
    for (let j = 0; j < width; j++) {
      let value = columns[j][i] / SCALE - sums[j] / (items * SCALE);
      for (let k = 0; k < j; k++) value -= root[j][k] * values[i * width + k];
      values[i * width + j] = value / root[j][j];
    }
  return { width, values };
};

/** The columns in units of 1 / 4096: the genres of most items, in the order of names, z and z^2. */
const wholeColumns = (described) => {
  const counts = new Map();
  for (const each of described)
    for (const genre of new Set(each?.genres)) counts.set(genre, (counts.get(genre) ?? 0) + 1);
  const byName = (a, b) => (a < b ? -1 : Number(a > b));
  const genres = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || byName(a, b))
    .slice(0, MOST_GENRES).sort(byName);
  const z = standardised(described.map((each) => each?.year ?? 0));
  return [...genres.map((genre) => described.map((each) =>
    each?.genres.includes(genre) ? SCALE : 0)),
  z.map((each) => each * UNIT), z.map((each) => each * each)];
};

/** z in units of 1 / 64. */
const standardised = (years) => {
  const count = years.filter((year) => year).length;
  const total = years.reduce((sum, year) => sum + year, 0);
  const squares = years.reduce((sum, year) => sum + year * year, 0);
  const spread = rootBelow(BigInt(count) * BigInt(squares) - BigInt(total) ** 2n);
  if (!spread) return years.map(() => 0);
  const rounded = (year) => // below 2^53
    Math.floor(((year * count - total) * UNIT + Math.floor(spread / 2)) / spread);
  return years.map((year) => year ? Math.min(SPAN, Math.max(-SPAN, rounded(year))) : 0);
};

const rootBelow = (square) => {
  let found = BigInt(Math.floor(Math.sqrt(Number(square))));
  while (found * found > square) found--;
  while ((found + 1n) ** 2n <= square) found++;
  return Number(found);
};

/** The double nearest to a quotient of integers, as Python divides them. */
const quotient = (a, b) => {
  const size = a < 0n ? -a : a;
  const shift = BigInt(Math.max(0, 64 + b.toString(2).length - size.toString(2).length));
  const whole = (size << shift) / b, rest = (size << shift) % b ? 1n : 0n;
  return (a < 0n ? -1 : 1) * Number(whole * 2n + rest) / 2 ** (Number(shift) + 1);
};

const cholesky = (rows) => {
  const root = rows.map(() => new Float64Array(rows.length));
  rows.forEach((row, j) => {
    for (let k = 0; k <= j; k++) {
      let left = row[k];
      for (let i = 0; i < k; i++) left -= root[j][i] * root[k][i];
      root[j][k] = j === k ? Math.sqrt(left) : left / root[k][k];
    }
  });
  return root;
};
