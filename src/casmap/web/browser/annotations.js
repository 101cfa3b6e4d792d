// Annotation files, equal to those that casmap/annotations/formats writes for the same objects; tests compare them.
import { labelStudio } from "./label_studio.js";
import { stem, unique } from "./names.js";
import { cover } from "./objects.js";
import { rounded, written } from "./text.js";
import { labels, yolo } from "./yolo.js";
import { zip } from "./zip.js";

const UNNAMED = "object";
// A writer takes photos (each name, width, height, file, and objects with box, area, sum, runs and label), all classes
// and the version of casmap. It returns the content of each file by its path.
export const WRITERS = { coco, yolo, "label-studio": labelStudio };

// The annotation file of photos; several files are packed into a ZIP. analyse: finds the objects of a photo.
export async function annotationFile(photos, format, { classes, version }, analyse) {
  const labelled = [], skipped = [], names = new Set();
  for (const photo of photos) {
    const name = unique(photo.name, names);
    try {
      const { objects, width, height, label } = await analyse(photo), named = (classes === "predicted" && label) || UNNAMED;
      labelled.push({ name, width, height, file: photo.file, objects: objects.map(one => ({ ...one, label: named })) });
    } catch (error) {
      skipped.push(`${name}: ${error.message || error}`);
    }
  }
  if (!labelled.length) throw new Error(skipped[0]);
  const found = labelled.flatMap(({ objects }) => objects.map(({ label }) => label)), all = [...new Set(found)].sort();
  const alone = format === "yolo" && photos.length === 1 && classes === "none"; // its one class needs no data.yaml
  const files = alone ? { [`${stem(photos[0].name)}.txt`]: labels(labelled[0], all) } : await WRITERS[format](labelled, all, version);
  const [[name, content], ...others] = Object.entries(files);
  return { name: others.length ? `${format}.zip` : name, blob: others.length ? await zip(files) : new Blob([content]), objects: found.length, skipped };
}

// A COCO file with exact masks.
function coco(photos, classes) {
  const annotations = [];
  photos.forEach(({ width, height, objects }, photo) => {
    for (const { box: [x0, y0, x1, y1], area, sum, runs, label } of objects) {
      annotations.push({
        id: annotations.length + 1, image_id: photo + 1, category_id: classes.indexOf(label) + 1,
        bbox: [x0, y0, x1 - x0, y1 - y0], area, segmentation: { size: [height, width], counts: runLengths(runs, width, height) },
        iscrowd: 0, score: Number(rounded(sum / area, 4)),
      });
    }
  });
  const content = {
    info: { description: "Made by casmap, from class labels only." },
    images: photos.map(({ name, width, height }, i) => ({ id: i + 1, file_name: written(name), width, height })),
    categories: classes.map((name, i) => ({ id: i + 1, name, supercategory: "" })), annotations,
  };
  return { "annotations.json": `${JSON.stringify(content)}\n` };
}

// COCO's run lengths, column by column, beginning with those outside; each as a difference, in characters of 5 bits.
function runLengths(runs, width, height) {
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
