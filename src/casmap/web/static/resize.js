// Resizing with the numbers of OpenCV, on which the Python package builds: INTER_AREA and INTER_LINEAR.

// For each of `to` pixels along an axis: the first of `from` pixels that it covers, and the weights of all it covers.
// OpenCV leaves out a pixel of which less than a thousandth is covered.
function shares(from, to) {
  const scale = from / to;
  return Array.from({ length: to }, (_, i) => {
    const start = i * scale, end = Math.min(from, start + scale), cell = Math.min(scale, from - start), weights = [];
    let first = Math.floor(start);
    if (Math.ceil(start) - start <= 1e-3) first = Math.ceil(start);
    for (let at = first; at < end; at++) {
      const covered = Math.min(end, at + 1) - Math.max(start, at);
      if (covered > 1e-3) weights.push(Math.fround(Math.min(covered, cell) / cell));
    }
    return { first, weights };
  });
}

// Average the pixels (height, width, channels) of bytes that each new pixel covers; the new sides are at most the old
// ones. Only the first three of the channels are kept. OpenCV adds with 32 bits; sums of whole pixels it adds exactly.
export function average(image, [width, height, channels], [wide, high]) {
  const result = new Uint8Array(wide * high * 3), whole = width % wide === 0 && height % high === 0;
  const columns = shares(width, wide), sums = new Float32Array(wide * 3), { fround } = Math;
  const area = width / wide * (height / high), share = fround(1 / area);
  shares(height, high).forEach((row, y) => {
    sums.fill(0);
    row.weights.forEach((down, j) => {
      const line = (row.first + j) * width;
      for (let x = 0; x < wide; x++) {
        const { first, weights } = columns[x];
        for (let c = 0; c < 3; c++) {
          let sum = 0;
          if (whole) for (let i = 0; i < weights.length; i++) sum += image[(line + first + i) * channels + c];
          else for (let i = 0; i < weights.length; i++) sum = fround(sum + fround(image[(line + first + i) * channels + c] * weights[i]));
          sums[x * 3 + c] += whole ? sum : fround(sum * down);
        }
      }
    });
    for (let i = 0; i < sums.length; i++) {
      const mean = whole ? fround(sums[i] * share) : sums[i];
      result[y * sums.length + i] = area === 4 && whole ? (sums[i] + 2) >> 2 : roundHalfEven(mean);
    }
  });
  return result;
}

export function roundHalfEven(value) {
  const low = Math.floor(value), rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2) ? low + 1 : low;
}

// For each of `to` pixels along an axis: the two of `from` pixels to interpolate between, and the weight of the second.
export function between(from, to) {
  const left = new Int32Array(to), right = new Int32Array(to), weights = new Float32Array(to);
  for (let i = 0; i < to; i++) {
    const at = Math.fround((i + 0.5) * (from / to) - 0.5), low = Math.floor(at);
    left[i] = Math.min(from - 1, Math.max(0, low));
    right[i] = Math.min(from - 1, Math.max(0, low + 1));
    weights[i] = low < 0 || low >= from - 1 ? 0 : at - low;
  }
  return { left, right, weights };
}

// Interpolate bytes (height, width, 3) bilinearly, with weights of 11 bits.
export function enlargeBytes(image, [width, height], [wide, high]) {
  if (width === wide && height === high) return image;
  const columns = between(width, wide), rows = between(height, high), result = new Uint8Array(wide * high * 3);
  const across = new Int32Array(2 * wide * 3), bits = 2048;
  for (let y = 0; y < high; y++) {
    for (const [which, row] of [rows.left[y], rows.right[y]].entries()) {
      for (let x = 0; x < wide; x++) {
        const second = roundHalfEven(columns.weights[x] * bits), first = roundHalfEven((1 - columns.weights[x]) * bits);
        for (let c = 0; c < 3; c++) {
          const a = image[(row * width + columns.left[x]) * 3 + c], b = image[(row * width + columns.right[x]) * 3 + c];
          across[(which * wide + x) * 3 + c] = a * first + b * second;
        }
      }
    }
    const second = roundHalfEven(rows.weights[y] * bits), first = roundHalfEven((1 - rows.weights[y]) * bits);
    for (let i = 0; i < wide * 3; i++) {
      const upper = (first * (across[i] >> 4)) >> 16, lower = (second * (across[wide * 3 + i] >> 4)) >> 16;
      result[y * wide * 3 + i] = (upper + lower + 2) >> 2;
    }
  }
  return result;
}

// Interpolate numbers (height, width) bilinearly.
export function enlarge(values, [width, height], [wide, high]) {
  const columns = between(width, wide), rows = between(height, high), result = new Float32Array(wide * high);
  for (let y = 0; y < high; y++) {
    const upper = rows.left[y] * width, lower = rows.right[y] * width, down = rows.weights[y];
    for (let x = 0; x < wide; x++) {
      const l = columns.left[x], r = columns.right[x], share = columns.weights[x];
      const above = values[upper + l] + (values[upper + r] - values[upper + l]) * share;
      const below = values[lower + l] + (values[lower + r] - values[lower + l]) * share;
      result[y * wide + x] = above + (below - above) * down;
    }
  }
  return result;
}

// The network's input (size, size, 3) of a photo (height, width, 4): averaged along an edge that shrinks, interpolated
// along one that grows.
export function squash(pixels, width, height, size) {
  const smaller = [Math.min(width, size), Math.min(height, size)];
  return enlargeBytes(average(pixels, [width, height, 4], smaller), smaller, [size, size]);
}
