// The polygon around an object, equal to that of casmap.inference.objects.outline, which uses OpenCV; tests compare them.
import { components } from "./objects.js";

const TOLERANCE = 2; // halves of a pixel by which a polygon may deviate from the outline
const AROUND = [[1, 0], [1, -1], [0, -1], [-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1]]; // from the right, counterclockwise

// The points [x, y] around runs (triples of y, x0, x1), or around their component with the longest outline.
export function outline(runs) {
  const [left, top, right, bottom] = sides(runs), borders = traced(runs);
  borders.sort((one, two) => two.length - one.length || two[0][1] - one[0][1] || two[0][0] - one[0][0]);
  return polygon(borders[0], left, top, right - left, bottom - top);
}

// The points around each component of runs, its holes left out.
export function outlines(runs) {
  const [left, top] = sides(runs);
  return traced(runs).map(points => {
    const [[x0, y0], [x1, y1]] = [Math.min, Math.max].map(end => [0, 1].map(i => points.reduce((most, point) => end(most, point[i]), points[0][i])));
    const own = points.map(([x, y]) => [x - x0, y - y0]);
    return polygon(own, left + x0 / 2, top + y0 / 2, (x1 - x0 + 1) / 2, (y1 - y0 + 1) / 2);
  });
}

// The border of each component of runs, in halves of a pixel from their upper left corner.
function traced(runs) {
  const [left, top, right, bottom] = sides(runs), width = right - left, height = bottom - top;
  const part = new Uint8Array(width * height);
  for (let i = 0; i < runs.length; i += 3) {
    const line = (runs[i] - top) * width - left;
    part.fill(1, line + runs[i + 1], line + runs[i + 2]);
  }
  return components(part, width, height, 1).map(one => trace(part, width, height, one.runs[1], one.runs[0]));
}

// The corners of a border inside a box; those of the box if the border is a line of pixels.
function polygon(border, left, top, width, height) {
  let corners = withoutFlat(simplified(border));
  if (corners.length < 3) {
    const [x, y] = [2 * width - 1, 2 * height - 1];
    corners = [[0, 0], [x, 0], [x, y], [0, y]];
  }
  return corners.map(([x, y]) => [left + (x + 0.5) / 2, top + (y + 0.5) / 2]);
}

function sides(runs) {
  let left = Infinity, right = 0;
  for (let i = 0; i < runs.length; i += 3) {
    left = Math.min(left, runs[i + 1]);
    right = Math.max(right, runs[i + 2]);
  }
  return [left, runs[0], right, runs.at(-3) + 1];
}

// The border of a component at twice its size, pixel by pixel, counterclockwise from its first pixel in reading order.
function trace(part, width, height, column, row) {
  const has = (x, y) => x >= 0 && y >= 0 && x < 2 * width && y < 2 * height && part[(y >> 1) * width + (x >> 1)];
  const points = [], first = 2 * column, top = 2 * row;
  let x = first, y = top, way = 4; // of the step to this pixel; as if the pixel on the right had come before the first
  for (;;) {
    let next = (way + 5) % 8; // behind the previous pixel
    while (!has(x + AROUND[next][0], y + AROUND[next][1])) next = (next + 1) % 8;
    points.push([x, y]);
    const closes = x === first + 1 && y === top && next === 4;
    way = next;
    x += AROUND[way][0];
    y += AROUND[way][1];
    if (closes) return points;
  }
}

// The corners of a closed outline by the algorithm of Douglas and Peucker, begun at two points far from each other.
function simplified(points) {
  const count = points.length;
  let start = 0, step = 0, most = 0;
  for (let turn = 0; turn < 3; turn++) {
    start = (start + step) % count;
    most = step = 0;
    for (let i = 1; i < count; i++) {
      const [x, y] = points[(start + i) % count], apart = (x - points[start][0]) ** 2 + (y - points[start][1]) ** 2;
      if (apart > most) { most = apart; step = i; }
    }
  }
  if (most <= TOLERANCE ** 2) return [points[start]];
  const ring = [...points.slice(start), ...points.slice(0, start + 1)], corners = [], open = [[step, count], [0, step]];
  while (open.length) {
    const [from, to] = open.pop();
    let farthest = 0, at = from;
    for (let i = from + 1; i < to; i++) {
      const distance = toSegment(ring[i], ring[from], ring[to]);
      if (distance > farthest) { farthest = distance; at = i; }
    }
    if (farthest <= TOLERANCE ** 2) corners.push(ring[from]);
    else open.push([at, to], [from, at]);
  }
  return corners;
}

// The squared distance of a point to a line between two points. (OpenCV before 4.13 took an endless line.)
function toSegment([x, y], [a, b], [c, d]) {
  const dx = c - a, dy = d - b, length = dx ** 2 + dy ** 2, along = (x - a) * dx + (y - b) * dy;
  if (along <= 0) return (x - a) ** 2 + (y - b) ** 2;
  if (along >= length) return (x - c) ** 2 + (y - d) ** 2;
  return ((y - b) * dx - (x - a) * dy) ** 2 / length;
}

// Corners without those that lie almost on the line between their neighbours.
function withoutFlat(corners) {
  const kept = [...corners], count = corners.length;
  let left = count, write = 0, before = corners[count - 1], point = corners[0];
  for (let i = 0; i < count && left > 2; i++) {
    const after = kept[(i + 1) % count], dx = after[0] - before[0], dy = after[1] - before[1];
    const aside = Math.abs((point[0] - before[0]) * dy - (point[1] - before[1]) * dx);
    const onwards = (point[0] - before[0]) * (after[0] - point[0]) + (point[1] - before[1]) * (after[1] - point[1]) >= 0;
    if (aside ** 2 <= TOLERANCE ** 2 / 2 * (dx ** 2 + dy ** 2) && dx && dy && onwards) {
      left--;
      before = after;
      point = kept[(i + 2) % count];
      i++;
    } else {
      before = point;
      point = after;
    }
    kept[write++] = before;
  }
  return kept.slice(0, left);
}
