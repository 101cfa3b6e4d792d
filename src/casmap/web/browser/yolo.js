// YOLO files, as casmap/annotations/formats/yolo.py writes them: images, labels, data.yaml and the splits.
import { stem } from "./names.js";
import { rounded, safe, written } from "./text.js";

const VAL = 0.1; // share of the photos in the validation split
const FOLDER = "photos"; // before the names of photos that differ in their endings only
// What YAML cannot have in a string, or takes for a line break.
const UNPRINTABLE = /[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/gu;

export async function yolo(photos, classes) {
  const files = {}, names = copies(photos), val = await validation(photos.map(({ name }) => written(name)));
  photos.forEach((photo, i) => {
    files[`images/${names[i]}`] = photo.file;
    files[`labels/${stem(names[i])}.txt`] = labels(photo, classes);
  });
  let splits = "train: images\n# val: Ultralytics requires a folder or a list of other photos here\n";
  if (val.size) {
    splits = "train: train.txt\nval: val.txt\n";
    const list = inside => names.filter((_, i) => val.has(i) === inside).map(name => `./images/${name}\n`).join("");
    Object.assign(files, { "train.txt": list(false), "val.txt": list(true) });
  }
  const named = classes.map((name, i) => `  ${i}: ${quoted(name)}\n`).join("");
  return { ...files, "data.yaml": `${splits}names:\n${named}# written by casmap\n` };
}

// The lines of a photo: the class, then centre and size of the box, as shares of the photo.
export function labels({ width, height, objects }, classes) {
  return objects.map(({ box: [x0, y0, x1, y1], label }) => {
    const shares = [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height];
    return `${[classes.indexOf(label), ...shares.map(share => rounded(share, 6))].join(" ")}\n`;
  }).join("");
}

const quoted = label => JSON.stringify(label).replace(UNPRINTABLE, one => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);

// Unique names of the copies of photos, whose names differ: labels have the names of photos without their endings.
function copies(photos) {
  const stems = photos.map(({ name }) => safe(stem(name)));
  const used = new Set(stems.filter((one, i) => stems.every((other, j) => i === j || one !== other)));
  return photos.map(({ name }, i) => {
    let found = stems[i];
    if (!used.has(found)) {
      const base = `${FOLDER}-${found}`;
      found = base;
      for (let number = 2; used.has(found); number++) found = `${base}-${number}`;
      used.add(found);
    }
    return found + safe(name.slice(stem(name).length));
  });
}

// The indices of the photos in the validation split, chosen by a hash of their names.
async function validation(names) {
  if (names.length < 2) return new Set();
  if (!crypto.subtle) throw new Error("YOLO's splits need a page on https:// or localhost: choose COCO, or run casmap annotate.");
  const hashes = await Promise.all(names.map(name => crypto.subtle.digest("SHA-256", new TextEncoder().encode(name))));
  const letters = hashes.map(hash => String.fromCharCode(...new Uint8Array(hash)));
  const ranked = [...names.keys()].sort((one, two) => (letters[one] < letters[two] ? -1 : 1));
  const count = hashes.filter(hash => new DataView(hash).getBigUint64(0) < VAL * 2 ** 64).length;
  return new Set(ranked.slice(0, Math.min(Math.max(count, 1), names.length - 1)));
}
