// COCO and YOLO files, equal to those that casmap/annotations/formats writes for the same objects; tests compare them.
import { stem, unique } from "./names.js";
import { cover } from "./objects.js";

const UNNAMED = "object";

// The annotation file of photos. analyse: finds the objects of a photo.
export async function annotationFile(photos, format, options, analyse) {
  if (format === "yolo" && photos.length > 1) throw new Error("YOLO files have one photo each here: choose COCO, or run casmap annotate.");
  const labelled = [];
  for (const photo of photos) {
    const { objects, width, height, label } = await analyse(photo);
    const named = (options.classes === "predicted" && label) || UNNAMED;
    labelled.push({ name: photo.name, width, height, objects: objects.map(one => ({ ...one, label: named })) });
  }
  const count = labelled.reduce((sum, { objects }) => sum + objects.length, 0);
  const [name, text, type] = format === "coco" ? ["annotations.json", `${JSON.stringify(coco(labelled))}\n`, "application/json"]
    : [`${stem(photos[0].name)}.txt`, yolo(labelled[0]), "text/plain"];
  return { name, blob: new Blob([text], { type }), objects: count, skipped: [] };
}

const classesOf = photos => [...new Set(photos.flatMap(({ objects }) => objects.map(({ label }) => label)))].sort();

// A COCO file with exact masks. photos: each name, width, height and objects with box, area, sum, runs and label.
export function coco(photos) {
  const classes = classesOf(photos), names = new Set(), annotations = [];
  photos.forEach(({ width, height, objects }, photo) => {
    for (const { box: [x0, y0, x1, y1], area, sum, runs, label } of objects) {
      annotations.push({
        id: annotations.length + 1, image_id: photo + 1, category_id: classes.indexOf(label) + 1,
        bbox: [x0, y0, x1 - x0, y1 - y0], area, segmentation: { size: [height, width], counts: runLengths(runs, width, height) },
        iscrowd: 0, score: Number((sum / area).toFixed(4)),
      });
    }
  });
  return {
    info: { description: "Made by casmap, from class labels only." },
    images: photos.map(({ name, width, height }, i) => ({ id: i + 1, file_name: unique(name, names), width, height })),
    categories: classes.map((name, i) => ({ id: i + 1, name, supercategory: "" })), annotations,
  };
}

// A YOLO file: the class, then centre and size of the box, as shares of the photo.
export function yolo(photo) {
  const { width, height, objects } = photo, classes = classesOf([photo]);
  return objects.map(({ box: [x0, y0, x1, y1], label }) => {
    const shares = [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height];
    return `${[classes.indexOf(label), ...shares.map(share => share.toFixed(6))].join(" ")}\n`;
  }).join("");
}

// COCO's run lengths, column by column, beginning with those outside; each as a difference, in characters of 5 bits.
export function runLengths(runs, width, height) {
  const part = cover([{ runs }], width, height), counts = [];
  let inside = 0, length = 0;
  for (let x = 0; x < width; x++) {
    for (let y = 0; y < height; y++) {
      if (part[y * width + x] === inside) length++;
      else { counts.push(length); inside = 1 - inside; length = 1; }
    }
  }
  counts.push(length);
  let text = "";
  counts.forEach((count, i) => {
    let rest = i > 2 ? count - counts[i - 2] : count, more = true;
    while (more) {
      const bits = rest & 31;
      rest >>= 5;
      more = bits & 16 ? rest !== -1 : rest !== 0;
      text += String.fromCharCode((more ? bits | 32 : bits) + 48);
    }
  });
  return text;
}
