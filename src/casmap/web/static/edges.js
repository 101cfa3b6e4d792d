// Fits the decoder's values to the pixels of a photo, as casmap/inference/edges.py does: smooth, by interpolation, or
// sharp, by a guided filter whose coefficients are computed at the decoder's size.
import { average, between, enlarge, roundHalfEven } from "./resize.js";

const WINDOW = 0.2, EPSILON = 1e-4, LIMIT = 2 ** 24;

// The mask (height, width) of a photo. values: (side, side), one for 4 x 4 pixels of the network's input, the square
// (size, size, 3). pixels: (height, width, 4).
export function fitMask({ values, side, size }, square, { pixels, width, height }, edges) {
  if (edges === "smooth") return enlarge(values, [side, side], [width, height]);
  const found = coefficients(values, average(square, [size, size, 3], [side, side]), side);
  const scale = Math.sqrt(LIMIT / (width * height));
  if (scale >= 1) return apply(found, side, pixels, width, height, 4);
  const smaller = [Math.max(1, Math.floor(width * scale)), Math.max(1, Math.floor(height * scale))];
  const small = average(pixels, [width, height, 4], smaller);
  return enlarge(apply(found, side, small, ...smaller, 3), smaller, [width, height]);
}

// q = a · I + b in every pixel, with coefficients (size, size) that are interpolated; 0 to 1.
function apply([red, green, blue, constant], size, pixels, width, height, channels) {
  const columns = between(size, width), rows = between(size, height), result = new Float32Array(width * height);
  const line = new Float32Array(4 * size);
  for (let y = 0; y < height; y++) {
    const upper = rows.left[y] * size, lower = rows.right[y] * size, down = rows.weights[y];
    for (let x = 0; x < size; x++) { // the four coefficients of this row, side by side
      line[4 * x] = red[upper + x] + (red[lower + x] - red[upper + x]) * down;
      line[4 * x + 1] = green[upper + x] + (green[lower + x] - green[upper + x]) * down;
      line[4 * x + 2] = blue[upper + x] + (blue[lower + x] - blue[upper + x]) * down;
      line[4 * x + 3] = constant[upper + x] + (constant[lower + x] - constant[upper + x]) * down;
    }
    for (let x = 0, at = y * width; x < width; x++, at++) {
      const l = 4 * columns.left[x], r = 4 * columns.right[x], share = columns.weights[x], p = at * channels;
      const a = line[l] + (line[r] - line[l]) * share, b = line[l + 1] + (line[r + 1] - line[l + 1]) * share;
      const c = line[l + 2] + (line[r + 2] - line[l + 2]) * share, d = line[l + 3] + (line[r + 3] - line[l + 3]) * share;
      const value = d + (a * pixels[p] + b * pixels[p + 1] + c * pixels[p + 2]) / 255;
      result[at] = value < 0 ? 0 : value > 1 ? 1 : value;
    }
  }
  return result;
}

// The guided filter's coefficients for a mask (size, size) and an image (size, size, 3): three factors and a constant.
function coefficients(mask, square, size) {
  const count = size * size, radius = radiusOf(mask), mean = values => blur(values, size, radius);
  const each = value => {
    const result = new Float32Array(count);
    for (let i = 0; i < count; i++) result[i] = value(i);
    return result;
  };
  const centred = (value, scale) => {
    let sum = 0;
    for (let i = 0; i < count; i++) sum += value(i);
    const level = Math.fround(sum / count / scale);
    return [each(i => Math.fround(value(i) / scale) - level), level];
  };
  const colours = [0, 1, 2].map(c => centred(i => square[3 * i + c], 255));
  const guide = colours.map(([values]) => values), [m, level] = centred(i => mask[i], 1);
  const means = guide.map(mean), meanOfMask = mean(m);
  const covariance = (x, y, ofX, ofY) => {
    const products = mean(each(i => x[i] * y[i]));
    return each(i => products[i] - Math.fround(ofX[i] * ofY[i]));
  };
  const pairs = [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]];
  const [rr, rg, rb, gg, gb, bb] = pairs.map(([i, j]) => covariance(guide[i], guide[j], means[i], means[j]));
  const [rm, gm, bm] = [0, 1, 2].map(i => covariance(guide[i], m, means[i], meanOfMask));
  const a = [0, 1, 2].map(() => new Float32Array(count)), b = new Float32Array(count);
  for (let i = 0; i < count; i++) { // (cov(I, I) + ε) a = cov(I, m), by elimination
    const p = rr[i] + EPSILON, f = rg[i] / p, g = rb[i] / p;
    const q = gg[i] + EPSILON - f * rg[i], u = gb[i] - f * rb[i], v = gm[i] - f * rm[i], h = u / q;
    const z = (bm[i] - g * rm[i] - h * v) / (bb[i] + EPSILON - g * rb[i] - h * u), y = (v - u * z) / q;
    const x = (rm[i] - rg[i] * y - rb[i] * z) / p;
    a[0][i] = x;
    a[1][i] = y;
    a[2][i] = z;
    b[i] = meanOfMask[i] - (x * means[0][i] + y * means[1][i] + z * means[2][i]);
  }
  const factors = a.map(mean), constant = mean(b), [red, green, blue] = colours.map(([, value]) => value);
  const [x, y, z] = factors;
  return [x, y, z, each(i => constant[i] + level - (x[i] * red + y[i] * green + z[i] * blue))];
}

// The radius of the filter's windows, which grow with the object.
export function radiusOf(mask) {
  let sum = 0;
  for (const value of mask) sum += value;
  return Math.max(1, roundHalfEven(WINDOW * Math.sqrt(sum)));
}

// Means over windows of 2 radius + 1 pixels; beyond the border the image is mirrored, its last pixel repeated.
function blur(values, size, radius) {
  const period = 2 * size, mirrored = Int32Array.from({ length: size + 2 * radius }, (_, i) => {
    const at = (((i - radius) % period) + period) % period;
    return at < size ? at : period - 1 - at;
  });
  const side = 2 * radius + 1, half = new Float64Array(size * size), result = new Float32Array(size * size);
  for (let y = 0; y < size; y++) slide(values, y * size, 1, half, mirrored, size, side);
  for (let x = 0; x < size; x++) slide(half, x, size, result, mirrored, size, side, side * side);
  return result;
}

// Sums over a sliding window along one line of an image.
function slide(from, start, step, to, mirrored, size, side, divisor = 1) {
  let sum = 0;
  for (let i = 0; i < side - 1; i++) sum += from[start + step * mirrored[i]];
  for (let i = 0; i < size; i++) {
    sum += from[start + step * mirrored[i + side - 1]];
    to[start + step * i] = sum / divisor;
    sum -= from[start + step * mirrored[i]];
  }
}
