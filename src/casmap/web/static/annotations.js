// Downloads of annotations: the server writes them like `casmap annotate`, for as many photos as a request may have.
"use strict";

const MOST_PHOTOS = 32, MOST_BYTES = 16 * 2 ** 20; // in one request for annotations

// Split photos into groups that respect the limits of a request.
function groupsOf(selected) {
  const groups = [];
  let bytes = Infinity;
  for (const photo of selected) {
    bytes += photo.file.size;
    if (bytes > MOST_BYTES || groups.at(-1).length >= MOST_PHOTOS) { groups.push([]); bytes = photo.file.size; }
    groups.at(-1).push(photo);
  }
  return groups;
}

// A name that no earlier photo has: the server sees the names of one request only.
function unique(name, taken) {
  const [, stem, ending] = name.match(/^(.*?)(\.[^.]*)?$/s);
  let found = name;
  for (let number = 2; taken.has(found); number++) found = `${stem}-${number}${ending ?? ""}`;
  taken.add(found);
  return found;
}

// Merge the COCO files of several groups and renumber their entries.
function merged(files) {
  const [first, ...others] = files;
  for (const { images, annotations, categories } of others) {
    const photos = first.images.length, objects = first.annotations.length;
    first.images.push(...images.map(one => ({ ...one, id: one.id + photos })));
    first.annotations.push(...annotations.map(one => ({ ...one, id: one.id + objects, image_id: one.image_id + photos })));
    if (!first.categories.length) first.categories = categories; // the same in every file with an object
  }
  return new Blob([JSON.stringify(first)], { type: "application/json" });
}

// Download annotations: the server writes them like `casmap annotate`.
async function download(name, selected, options) {
  const shown = { mapping: $("mapping").value, ...rule(), objects: $("largest").checked ? "largest" : "all" };
  const query = new URLSearchParams({ ...shown, ...options }), files = [], skipped = [], names = new Set();
  let objects = 0;
  report(`Writing ${name} …`);
  try {
    for (const group of groupsOf(selected)) {
      const form = new FormData();
      for (const { file } of group) form.append("photos", file, unique(file.name, names));
      const answer = await fetch(`api/annotations?${query}`, { method: "POST", body: form });
      const hint = answer.status === 413 ? " For more photos, run casmap annotate." : "";
      if (!answer.ok) throw new Error((await answer.json()).detail + hint);
      files.push(await answer.blob());
      objects += Number(answer.headers.get("Casmap-Objects"));
      skipped.push(...JSON.parse(answer.headers.get("Casmap-Left-Out")).map(error => `; skipped ${error}`));
    }
    save(name, files.length > 1 ? merged(await Promise.all(files.map(async file => JSON.parse(await file.text())))) : files[0]);
    report(`${name}: objects: ${objects}, photos: ${selected.length - skipped.length}${skipped.join("")}`);
  } catch (error) {
    report(`${name}: ${error.message}`);
  }
}
