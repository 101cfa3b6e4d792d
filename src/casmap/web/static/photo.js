// A photo that is open: its pixels, and masks at its own size. Only one photo is open at a time.
import { fitMask } from "./edges.js";
import { squash } from "./resize.js";
import { components, cover, isFlat, levelOf, objectOf, SMALLEST } from "./objects.js";
import { outlines } from "./outline.js";
import { draw } from "./views.js";

const SHOWN = 1600; // pixels of the longer side of the picture on the screen
const OUTLINED = 800; // the same of outlines, which are traced at every step of the slider

// The pixels (RGBA) of a file, upright, without colour management, transparent pixels white, as Python opens it.
// convert: makes a PNG of a file that the browser cannot open, or would open in another way.
export async function openPixels(file, convert) {
  const source = await bitmapOf(file, convert), { width, height } = source;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(source, 0, 0);
  source.close();
  return { width, height, pixels: context.getImageData(0, 0, width, height).data };
}

async function bitmapOf(file, convert) {
  const open = blob => createImageBitmap(blob, { colorSpaceConversion: "none" });
  try {
    if (await differs(file)) return await open(await convert(file));
  } catch { /* there is no server, or it refuses the photo */ }
  try {
    return await open(file);
  } catch { // the browser cannot open this format
    return open(await convert(file));
  }
}

// Whether a browser gives other pixels than Python: of a PNG with 16 bits for a colour, which Python stretches, and of
// AVIF and HEIC, whose colours are rounded in another way.
async function differs(file) {
  const start = new Uint8Array(await file.slice(0, 25).arrayBuffer()), text = String.fromCharCode(...start.slice(0, 8));
  return (text.slice(1, 4) === "PNG" && start[24] === 16) || text.slice(4) === "ftyp";
}

export class OpenPhoto {
  // opened: pixels, width and height.
  constructor(opened) {
    Object.assign(this, opened);
    this.squares = new Map();
    this.masks = new Map();
    this.found = new WeakMap(); // by mask: the level and its components
    this.outlined = new WeakMap(); // outlines by runs
    const scale = Math.min(1, SHOWN / Math.max(this.width, this.height));
    this.wide = Math.max(1, Math.round(this.width * scale));
    this.high = Math.max(1, Math.round(this.height * scale));
  }

  // The network's input: (size, size, 3).
  square(size) {
    if (!this.squares.has(size)) this.squares.set(size, squash(this.pixels, this.width, this.height, size));
    return this.squares.get(size);
  }

  // The mask of a network's output at the photo's size, 0 to 1.
  mask(raw, edges) {
    const key = `${raw.mapping} ${edges}`;
    if (!this.masks.has(key)) this.masks.set(key, fitMask(raw, this.square(raw.size), this, edges));
    return this.masks.get(key);
  }

  // What a rule finds in a mask. which: "largest" or "all". boxes: the corrected objects, or null.
  analyse(raw, edges, rule, which, boxes) {
    const mask = this.mask(raw, edges), { width, height } = this, level = levelOf(mask, rule);
    if (this.found.get(mask)?.level !== level) {
      const flat = isFlat(mask);
      this.found.set(mask, { level, flat, found: flat ? [] : components(mask, width, height, level) });
    }
    const { flat, found } = this.found.get(mask);
    const least = SMALLEST * mask.length;
    const own = found.slice(0, which === "largest" ? 1 : undefined).filter(({ area }) => area >= least);
    const objects = boxes ? boxes.map(box => objectOf(box, found, mask, width, level)) : own;
    const box = found.length ? found[0].box : null, shown = objects.length || boxes ? objects : found.slice(0, 1);
    return {
      mask, level, flat, found, objects, box, width, height, corrected: Boolean(boxes),
      part: cover(shown, width, height),
    };
  }

  // The outlines of all components of an object's runs, from every n-th row of a large photo; traced once.
  outlines(runs) {
    if (!this.outlined.has(runs)) this.outlined.set(runs, this.traced(runs));
    return this.outlined.get(runs);
  }

  traced(runs) {
    const step = Math.ceil(Math.max(this.width, this.height) / OUTLINED), rows = [];
    for (let i = 0; i < runs.length; i += 3) {
      if (runs[i] % step === 0) rows.push(runs[i] / step, Math.floor(runs[i + 1] / step), Math.ceil(runs[i + 2] / step));
    }
    return rows.length ? outlines(rows).map(points => points.map(([x, y]) => [step * x, step * y])) : [];
  }

  // The photo as an image of the screen's size.
  small() {
    if (!this.shown) {
      const whole = new OffscreenCanvas(this.width, this.height);
      whole.getContext("2d").putImageData(new ImageData(this.pixels, this.width, this.height), 0, 0);
      const context = new OffscreenCanvas(this.wide, this.high).getContext("2d", { willReadFrequently: true });
      context.imageSmoothingQuality = "high";
      context.drawImage(whole, 0, 0, this.wide, this.high);
      this.shown = context.getImageData(0, 0, this.wide, this.high);
    }
    return this.shown;
  }

  // A view of the screen's size.
  view(kind, analysed) {
    const image = this.small(), pixels = Uint8ClampedArray.from(image.data);
    return new ImageData(draw(kind, pixels, [image.width, image.height], analysed), image.width, image.height);
  }

  // A view of the photo's own size, as a PNG. A cutout is cropped to its objects.
  async picture(kind, analysed) {
    const { width, height } = this, pixels = draw(kind, Uint8ClampedArray.from(this.pixels), [width, height], analysed);
    let [x0, y0, x1, y1] = [0, 0, width, height];
    if (kind === "cutout") {
      const boxes = analysed.objects.length ? analysed.objects.map(({ box }) => box) : [analysed.box];
      [x0, y0] = [0, 1].map(i => Math.min(...boxes.map(box => box[i])));
      [x1, y1] = [2, 3].map(i => Math.max(...boxes.map(box => box[i])));
    }
    const canvas = new OffscreenCanvas(x1 - x0, y1 - y0), context = canvas.getContext("2d");
    context.putImageData(new ImageData(pixels, width, height), -x0, -y0);
    if (kind === "overlay" && analysed.box) {
      context.strokeStyle = "white";
      context.lineWidth = Math.max(1, Math.round(Math.min(width, height) / 150));
      for (const { box } of analysed.objects) context.strokeRect(box[0], box[1], box[2] - box[0], box[3] - box[1]);
    }
    return canvas.convertToBlob({ type: "image/png" });
  }
}
