// The binary mask, its largest component and box, and the views of a photo, computed in the browser.
"use strict";

const MASKED = 128; // grey shown for removed pixels

// b = 1 where m >= threshold, or, if alpha is given, where m >= alpha mean(m); values: 0..255
function binaryMask(values, { threshold, alpha }) {
  let level = 255 * threshold;
  if (alpha !== undefined) {
    let sum = 0;
    for (const value of values) sum += value;
    level = alpha * sum / values.length;
  }
  return Uint8Array.from(values, value => value >= level ? 1 : 0);
}

// A constant mask marks no object. (The server checks to half a grey level and then says that it is flat.)
function isFlat(values) { return values.every(value => value === values[0]); }

// The largest 8-connected component of a binary mask; on a tie, the first in reading order.
function largestComponent(binary, width, height) {
  const part = new Int32Array(binary.length), stack = [];
  let best = 0, most = 0, number = 0;
  for (let start = 0; start < binary.length; start++) {
    if (!binary[start] || part[start]) continue;
    number++;
    let size = 0;
    part[start] = number;
    stack.push(start);
    while (stack.length) {
      const at = stack.pop(), x = at % width, y = (at - x) / width;
      size++;
      for (let v = Math.max(0, y - 1); v <= Math.min(height - 1, y + 1); v++) {
        for (let u = Math.max(0, x - 1); u <= Math.min(width - 1, x + 1); u++) {
          const next = v * width + u;
          if (binary[next] && !part[next]) { part[next] = number; stack.push(next); }
        }
      }
    }
    if (size > most) { most = size; best = number; }
  }
  return Uint8Array.from(part, n => best && n === best ? 1 : 0);
}

// x0, y0, x1, y1 with exclusive x1, y1; null for an empty mask
function tightBox(binary, width, height) {
  let x0 = width, y0 = height, x1 = 0, y1 = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!binary[y * width + x]) continue;
      x0 = Math.min(x0, x); x1 = Math.max(x1, x + 1);
      y0 = Math.min(y0, y); y1 = Math.max(y1, y + 1);
    }
  }
  return x1 ? [x0, y0, x1, y1] : null;
}

// Bilinear interpolation: channel c of an image of half the size at pixel x, y of the larger image.
function interpolate(colours, [width, height], x, y, c) {
  const u = Math.max(0, Math.min(width - 1, x / 2 - 0.25)), v = Math.max(0, Math.min(height - 1, y / 2 - 0.25));
  const x0 = Math.floor(u), y0 = Math.floor(v), x1 = Math.min(width - 1, x0 + 1), y1 = Math.min(height - 1, y0 + 1);
  const value = (column, row) => colours[3 * (row * width + column) + c], right = u - x0, down = v - y0;
  return (1 - down) * ((1 - right) * value(x0, y0) + right * value(x1, y0))
    + down * ((1 - right) * value(x0, y1) + right * value(x1, y1));
}

// Fill the hole smoothly: average the known pixels into smaller and smaller images, then fill from the smallest up.
function inpaint(pixels, hole, width, height) {
  const levels = [];
  let level = { width, height, sums: new Float32Array(width * height * 3), weights: new Float32Array(width * height) };
  for (let i = 0; i < hole.length; i++) {
    if (hole[i]) continue;
    level.weights[i] = 1;
    for (let c = 0; c < 3; c++) level.sums[3 * i + c] = pixels[4 * i + c];
  }
  levels.push(level);
  while (level.width > 1 || level.height > 1) {
    const w = Math.ceil(level.width / 2), h = Math.ceil(level.height / 2);
    const next = { width: w, height: h, sums: new Float32Array(w * h * 3), weights: new Float32Array(w * h) };
    for (let y = 0; y < level.height; y++) {
      for (let x = 0; x < level.width; x++) {
        const from = y * level.width + x, to = (y >> 1) * w + (x >> 1);
        next.weights[to] += level.weights[from];
        for (let c = 0; c < 3; c++) next.sums[3 * to + c] += level.sums[3 * from + c];
      }
    }
    levels.push(level = next);
  }
  let colours = null, above = null;
  for (const { width: w, height: h, sums, weights } of levels.reverse()) {
    const filled = new Float32Array(w * h * 3);
    for (let y = 0; y < h; y++) {
      for (let x = 0; x < w; x++) {
        const at = y * w + x;
        for (let c = 0; c < 3; c++) {
          filled[3 * at + c] = weights[at] ? sums[3 * at + c] / weights[at] : colours ? interpolate(colours, above, x, y, c) : MASKED;
        }
      }
    }
    colours = filled;
    above = [w, h];
  }
  const result = Uint8ClampedArray.from(pixels);
  for (let i = 0; i < hole.length; i++) {
    if (hole[i]) for (let c = 0; c < 3; c++) result[4 * i + c] = colours[3 * i + c];
  }
  return result;
}

// The pixels of a photo (RGBA), grey where `kept` is 0.
function masked(pixels, kept) {
  const result = Uint8ClampedArray.from(pixels);
  for (let i = 0; i < kept.length; i++) {
    if (!kept[i]) result[4 * i] = result[4 * i + 1] = result[4 * i + 2] = MASKED;
  }
  return result;
}
