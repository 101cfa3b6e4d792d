// The views of a photo: heat map, mask, cutout, masked-out and inpainted, at the size of the screen or of the photo.

const MASKED = 128; // grey shown for removed pixels
const EDGE = 2; // pixels across the edge of a cutout in which its opacity rises from 0 to 1
const INPAINTED = 512; // pixels of the longer side of the copy that is filled
const HEAT = 0.6; // opacity of the heat map where the mask is 1

// The colours of OpenCV's INFERNO, two hexadecimal digits for each of red, green and blue.
export const INFERNO =
  "00000401000501010601010802010a02020c02020e03021004031204031405041706041907051b08051d09061f0a07220b07240c0826" +
  "0d08290e092b10092d110a30120a32140b34150b37160b39180c3c190c3e1b0c411c0c431e0c451f0c48210c4a230c4c240c4f260c51" +
  "280b53290b552b0b572d0b592f0a5b310a5c320a5e340a5f3609613809623909633b09643d09653e0966400a67420a68440a68450a69" +
  "470b6a490b6a4a0c6b4c0c6b4d0d6c4f0d6c510e6c520e6d540f6d550f6d57106e59106e5a116e5c126e5d126e5f136e61136e62146e" +
  "64156e65156e67166e69166e6a176e6c186e6d186e6f196e71196e721a6e741a6e751b6e771c6d781c6d7a1d6d7c1d6d7d1e6d7f1e6c" +
  "801f6c82206c84206b85216b87216b88226a8a226a8c23698d23698f24699025689225689326679526679727669827669a28659b2964" +
  "9d29649f2a63a02a63a22b62a32c61a52c60a62d60a82e5fa92e5eab2f5ead305dae305cb0315bb1325ab3325ab43359b63458b73557" +
  "b93556ba3655bc3754bd3853bf3952c03a51c13a50c33b4fc43c4ec63d4dc73e4cc83f4bca404acb4149cc4248ce4347cf4446d04545" +
  "d24644d34743d44842d54a41d74b3fd84c3ed94d3dda4e3cdb503bdd513ade5238df5337e05536e15635e25734e35933e45a31e55c30" +
  "e65d2fe75e2ee8602de9612bea632aeb6429eb6628ec6726ed6925ee6a24ef6c23ef6e21f06f20f1711ff1731df2741cf3761bf37819" +
  "f47918f57b17f57d15f67e14f68013f78212f78410f8850ff8870ef8890cf98b0bf98c0af98e09fa9008fa9207fa9407fb9606fb9706" +
  "fb9906fb9b06fb9d07fc9f07fca108fca309fca50afca60cfca80dfcaa0ffcac11fcae12fcb014fcb216fcb418fbb61afbb81dfbba1f" +
  "fbbc21fbbe23fac026fac228fac42afac62df9c72ff9c932f9cb35f8cd37f8cf3af7d13df7d340f6d543f6d746f5d949f5db4cf4dd4f" +
  "f4df53f4e156f3e35af3e55df2e661f2e865f2ea69f1ec6df1ed71f1ef75f1f179f2f27df2f482f3f586f3f68af4f88ef5f992f6fa96" +
  "f8fb9af9fc9dfafda1fcffa4";

const colours = Array.from({ length: 256 }, (_, i) => {
  const value = Number.parseInt(INFERNO.slice(6 * i, 6 * i + 6), 16), opaque = HEAT * i / 255;
  return [1 - opaque, ...[value >> 16, (value >> 8) & 255, value & 255].map(colour => opaque * colour)];
});

const grey = value => Math.round(255 * value);

// Draw a view into pixels (RGBA) of a photo at any size. shown: mask, level, part (bytes of the objects; they replace
// the binary mask if the photo is corrected), width, height. sizes: width and height of the pixels.
export function draw(kind, pixels, [wide, high], shown) {
  const { mask, part, width, height, corrected } = shown;
  if (kind === "inpainted") return inpainted(pixels, wide, high, shown);
  const columns = Int32Array.from({ length: wide }, (_, x) => Math.floor((x + 0.5) * width / wide));
  for (let y = 0, to = 0; y < high; y++) {
    const line = Math.floor((y + 0.5) * height / high) * width;
    for (let x = 0; x < wide; x++, to += 4) {
      const at = line + columns[x];
      if (kind === "overlay") {
        const [photo, red, green, blue] = colours[grey(mask[at])];
        pixels[to] = pixels[to] * photo + red;
        pixels[to + 1] = pixels[to + 1] * photo + green;
        pixels[to + 2] = pixels[to + 2] * photo + blue;
      } else if (kind === "mask") {
        pixels[to] = pixels[to + 1] = pixels[to + 2] = corrected ? 255 * part[at] : grey(mask[at]);
      } else if (kind === "cutout") {
        pixels[to + 3] = opacity(shown, columns[x], line / width, at);
      } else if (keeps(shown, at)) pixels[to] = pixels[to + 1] = pixels[to + 2] = MASKED;
    }
  }
  return pixels;
}

const keeps = ({ mask, part, level, corrected }, at) => corrected ? part[at] : mask[at] >= level;

// The opacity of a pixel of a cutout: 128 to 255 inside the object, below it outside. It rises across the edge with
// (m - level) / |slope|, which is about the distance to the edge in pixels. Edges that somebody has drawn are hard.
function opacity({ mask, part, level, width, height, corrected }, x, y, at) {
  if (corrected) return 255 * part[at];
  const left = x > 0 ? 1 : 0, right = x < width - 1 ? 1 : 0, up = y > 0 ? width : 0, down = y < height - 1 ? width : 0;
  const near = part[at] || part[at - left] || part[at + right] || part[at - up] || part[at + down]
    || part[at - up - left] || part[at - up + right] || part[at + down - left] || part[at + down + right];
  if (!near) return 0;
  const slope = Math.hypot((mask[at + right] - mask[at - left]) / 2, (mask[at + down] - mask[at - up]) / 2);
  const share = Math.round(255 * (0.5 + (mask[at] - level) / (EDGE * Math.max(slope, 1e-6))));
  return part[at] ? Math.min(255, Math.max(128, share)) : Math.min(127, Math.max(0, share));
}

// Fill the binary mask smoothly from around it, in a small copy of the photo.
function inpainted(pixels, wide, high, shown) {
  const scale = Math.min(1, INPAINTED / Math.max(wide, high));
  const w = Math.max(1, Math.round(wide * scale)), h = Math.max(1, Math.round(high * scale));
  const whole = new OffscreenCanvas(wide, high), small = new OffscreenCanvas(w, h);
  whole.getContext("2d").putImageData(new ImageData(Uint8ClampedArray.from(pixels), wide, high), 0, 0);
  const context = small.getContext("2d", { willReadFrequently: true });
  context.drawImage(whole, 0, 0, w, h);
  const hole = new Uint8Array(w * h), holes = new Uint8Array(wide * high);
  for (let y = 0, at = 0; y < high; y++) { // a pixel of the copy is in the hole if any that it covers is
    const line = Math.floor((y + 0.5) * shown.height / high) * shown.width, row = Math.floor(y * h / high) * w;
    for (let x = 0; x < wide; x++, at++) {
      if (!keeps(shown, line + Math.floor((x + 0.5) * shown.width / wide))) continue;
      holes[at] = hole[row + Math.floor(x * w / wide)] = 1;
    }
  }
  const image = context.getImageData(0, 0, w, h);
  context.putImageData(new ImageData(fill(image.data, hole, w, h), w, h), 0, 0);
  const large = whole.getContext("2d");
  large.drawImage(small, 0, 0, wide, high);
  const filled = large.getImageData(0, 0, wide, high).data;
  for (let at = 0; at < holes.length; at++) {
    if (holes[at]) for (let c = 0; c < 3; c++) pixels[4 * at + c] = filled[4 * at + c];
  }
  return pixels;
}

// Fill a hole: average the known pixels into smaller and smaller images, then fill from the smallest up.
function fill(pixels, hole, width, height) {
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
  let coarse = null, sizes = null;
  for (const { width: w, height: h, sums, weights } of levels.reverse()) {
    const filled = new Float32Array(w * h * 3);
    for (let y = 0; y < h; y++) {
      for (let x = 0; x < w; x++) {
        const at = y * w + x;
        for (let c = 0; c < 3; c++) {
          filled[3 * at + c] = weights[at] ? sums[3 * at + c] / weights[at] : coarse ? interpolate(coarse, sizes, x, y, c) : MASKED;
        }
      }
    }
    coarse = filled;
    sizes = [w, h];
  }
  const result = Uint8ClampedArray.from(pixels);
  for (let i = 0; i < hole.length; i++) {
    if (hole[i]) for (let c = 0; c < 3; c++) result[4 * i + c] = coarse[3 * i + c];
  }
  return result;
}

// Channel c of an image of half the size, interpolated bilinearly at pixel x, y of the larger image.
function interpolate(coarse, [width, height], x, y, c) {
  const u = Math.max(0, Math.min(width - 1, x / 2 - 0.25)), v = Math.max(0, Math.min(height - 1, y / 2 - 0.25));
  const x0 = Math.floor(u), y0 = Math.floor(v), x1 = Math.min(width - 1, x0 + 1), y1 = Math.min(height - 1, y0 + 1);
  const value = (column, row) => coarse[3 * (row * width + column) + c], right = u - x0, down = v - y0;
  return (1 - down) * ((1 - right) * value(x0, y0) + right * value(x1, y0))
    + down * ((1 - right) * value(x0, y1) + right * value(x1, y1));
}
