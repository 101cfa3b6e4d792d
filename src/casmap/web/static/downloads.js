// Files that a person takes away: pictures of the photo that is shown, and annotations of all photos.
import * as engine from "./engine.js";
import { stem } from "./names.js";

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Save a view of a photo at its own size; returns what the status line says. The engine makes what the command line
// makes; objects that somebody has corrected, and a cutout of several objects, are drawn here.
export async function savePicture(kind, { photo, open, shown }, { objects, ...options }) {
  const name = `${stem(photo.name)}-${kind}.png`;
  if (kind === "cutout" && !shown.objects.length && (shown.corrected || !shown.box)) throw new Error("there is no object to cut out.");
  const own = photo.boxes || (kind === "cutout" && objects === "all");
  save(name, (!own && await engine.view(photo.file, kind, options)) || await open.picture(kind, shown));
  return `Saved ${name}.`;
}

// Save the annotations of photos; returns what the status line says.
export async function saveAnnotations(format, photos, options, analyse) {
  const { name, blob, objects, skipped } = await engine.annotations(photos, format, options, analyse);
  save(name, blob);
  const left = skipped.map(error => `; skipped ${error}`).join("");
  return `${name}: objects: ${objects}, photos: ${photos.length - skipped.length}${left}`;
}
