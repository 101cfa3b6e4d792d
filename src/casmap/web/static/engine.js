// The engine of `casmap serve`: the server runs the network and writes files. `casmap page` replaces this file by one
// that does both in the browser.
import { merged } from "./coco.js";
import { stem, unique } from "./names.js";

const MOST_PHOTOS = 32, MOST_BYTES = 16 * 2 ** 20; // in one request for annotations

export const loading = "The server maps the photo …";
export const note = "Photos are sent to this server only.";
export const formats = { coco: "COCO (JSON)", yolo: "YOLO (TXT, ZIP)", "label-studio": "Label Studio (ZIP)" };

async function ask(path, body) {
  const answer = await fetch(path, body ? { method: "POST", body } : {});
  if (answer.ok) return answer;
  const hint = answer.status === 413 && path.startsWith("api/annotations") ? " For more photos, run casmap annotate." : "";
  throw new Error((await answer.json()).detail + hint);
}

export async function mappings() { return (await ask("api/mappings")).json(); }

export async function samples() {
  const names = await (await ask("api/photos")).json();
  return names.map(name => ({ name, url: `api/photos/${encodeURIComponent(name)}` }));
}

// The network's output for a photo: width, height, size, side, values, label, confidence.
export async function map(file, mapping) {
  const found = await (await ask(`api/raw?${new URLSearchParams({ mapping })}`, file)).json();
  const bytes = Uint8Array.from(atob(found.values), letter => letter.charCodeAt(0));
  return { ...found, values: new Float32Array(bytes.buffer) }; // little-endian, like all browsers' machines
}

// A photo that the browser cannot open, as a PNG: the server keeps every pixel.
export async function convert(file) { return (await ask("api/view?view=masked-in&threshold=0", file)).blob(); }

// A view at the photo's own size, as the command line writes it.
export async function view(file, kind, options) {
  return (await ask(`api/view?${new URLSearchParams({ view: kind, ...options })}`, file)).blob();
}

// The annotation file of photos, each { file, boxes } with boxes null unless somebody has corrected them.
export async function annotations(photos, format, options) {
  const alone = photos.length === 1 && format === "yolo" && options.classes === "none";
  const query = new URLSearchParams({
    ...options, format, ...(format === "coco" ? { rle: true } : {}), ...(alone ? { ending: ".txt" } : {}),
  });
  const files = [], skipped = [], names = new Set(), groups = groupsOf(photos);
  let objects = 0;
  if (groups.length > 1 && format !== "coco") throw new Error("These are too many photos for the page: run casmap annotate.");
  for (const group of groups) {
    const form = new FormData();
    // Names differ among all requests: the server sees those of one request only.
    for (const { file } of group) form.append("photos", file, unique(file.name, names));
    if (group.some(({ boxes }) => boxes)) form.append("corrections", JSON.stringify(group.map(({ boxes }) => boxes)));
    const answer = await ask(`api/annotations?${query}`, form);
    files.push(await answer.blob());
    objects += Number(answer.headers.get("Casmap-Objects"));
    skipped.push(...JSON.parse(answer.headers.get("Casmap-Left-Out")));
  }
  const called = { coco: "annotations.json", yolo: alone ? `${stem(photos[0].file.name)}.txt` : "yolo.zip", "label-studio": "label-studio.zip" };
  const blob = files.length > 1 ? merged(await Promise.all(files.map(async file => JSON.parse(await file.text())))) : files[0];
  return { name: called[format], blob, objects, skipped };
}

// Photos in groups that respect the limits of a request.
function groupsOf(photos) {
  const groups = [];
  let bytes = Infinity;
  for (const photo of photos) {
    bytes += photo.file.size;
    if (bytes > MOST_BYTES || groups.at(-1).length >= MOST_PHOTOS) { groups.push([]); bytes = photo.file.size; }
    groups.at(-1).push(photo);
  }
  return groups;
}
