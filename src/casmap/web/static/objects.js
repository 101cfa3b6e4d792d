// The binary mask of a photo, its 8-connected components, and objects: components or boxes that somebody has drawn.

export const SMALLEST = 0.01; // share of the photo: smaller components are no objects
const FLAT = 1 / 512; // half a grey level

// The smallest value that the binary mask keeps: m >= threshold, or m >= alpha * mean(m).
export function levelOf(mask, { threshold, alpha }) {
  return alpha === undefined ? Math.fround(threshold) : alpha * meanOf(mask);
}

function meanOf(mask) {
  let sum = 0;
  for (let i = 0; i < mask.length; i++) sum += mask[i];
  return sum / mask.length;
}

// Whether a mask is constant: it marks no object then.
export function isFlat(mask) {
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < mask.length; i++) {
    if (mask[i] < low) low = mask[i];
    if (mask[i] > high) high = mask[i];
  }
  return high - low < FLAT;
}

// The components of m >= level, largest first; on a tie, the first in reading order. Of each: its box x0, y0, x1, y1
// with exclusive x1, y1; its area in pixels; the sum of the mask inside; and its runs, triples of y, x0, x1.
export function components(mask, width, height, level) {
  const runs = [], parents = [], sums = []; // three numbers for each run; the union-find tree; the mask in each run
  const root = run => {
    while (parents[run] !== run) run = parents[run] = parents[parents[run]];
    return run;
  };
  let above = 0, start = 0; // the first run of the row above, and of this row
  for (let y = 0; y < height; y++) {
    const line = y * width;
    for (let x = 0; x < width; x++) {
      if (mask[line + x] < level) continue;
      const first = x, run = parents.length;
      let sum = 0;
      while (x < width && mask[line + x] >= level) sum += mask[line + x++];
      runs.push(y, first, x);
      parents.push(run);
      sums.push(sum);
      while (above < start && runs[3 * above + 2] < first) above++;
      for (let other = above; other < start && runs[3 * other + 1] <= x; other++) {
        const one = root(other), two = root(run);
        parents[Math.max(one, two)] = Math.min(one, two); // the root of a component is its first run
      }
    }
    above = start;
    start = parents.length;
  }
  const found = new Map();
  for (let run = 0; run < parents.length; run++) {
    const [y, x0, x1] = [runs[3 * run], runs[3 * run + 1], runs[3 * run + 2]], first = root(run);
    if (!found.has(first)) found.set(first, { box: [x0, y, x1, y + 1], area: 0, sum: 0, runs: [] });
    const one = found.get(first), { box } = one;
    box[0] = Math.min(box[0], x0);
    box[2] = Math.max(box[2], x1);
    box[3] = y + 1;
    one.area += x1 - x0;
    one.sum += sums[run];
    one.runs.push(y, x0, x1);
  }
  return [...found.values()].sort((a, b) => b.area - a.area); // stable: ties stay in reading order
}

// The component that has a pixel.
export function componentAt(found, x, y) {
  return found.find(({ box, runs }) => x >= box[0] && x < box[2] && y >= box[1] && y < box[3] && covers(runs, x, y));
}

function covers(runs, x, y) {
  for (let i = 0; i < runs.length; i += 3) if (runs[i] === y && x >= runs[i + 1] && x < runs[i + 2]) return true;
  return false;
}

// The object of a box: the component with this box, or what the binary mask has inside it, or else all of its pixels.
export function objectOf(box, found, mask, width, level) {
  const same = found.find(one => one.box.every((side, i) => side === box[i]));
  if (same) return same;
  const inside = gather(box, mask, width, value => value >= level);
  return inside.area ? inside : gather(box, mask, width, () => true);
}

function gather([x0, y0, x1, y1], mask, width, keeps) {
  const runs = [];
  let area = 0, sum = 0;
  for (let y = y0; y < y1; y++) {
    for (let x = x0; x < x1; x++) {
      if (!keeps(mask[y * width + x])) continue;
      const first = x;
      while (x < x1 && keeps(mask[y * width + x])) sum += mask[y * width + x++];
      runs.push(y, first, x);
      area += x - first;
    }
  }
  return { box: [x0, y0, x1, y1], area, sum, runs };
}

// The pixels of objects as bytes (height, width), 1 inside.
export function cover(objects, width, height) {
  const part = new Uint8Array(width * height);
  for (const { runs } of objects) {
    for (let i = 0; i < runs.length; i += 3) part.fill(1, runs[i] * width + runs[i + 1], runs[i] * width + runs[i + 2]);
  }
  return part;
}
