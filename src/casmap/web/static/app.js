// The page: photos come in, the engine runs the network on each once, and everything else is computed here.
import * as engine from "./engine.js";
import { saveAnnotations, savePicture } from "./downloads.js";
import { focusLast, listObjects, percent } from "./list.js";
import { componentAt } from "./objects.js";
import { OpenPhoto, openPixels } from "./photo.js";
import { Stage } from "./stage.js";
import { addTile, markTiles, offerSamples } from "./strip.js";

const EXAMPLE = "example.jpg";
const RULES = { threshold: ["Threshold", 0.05, 0.95, 0.5], alpha: ["Times the mean", 0.1, 3, 1] }; // least, most, at first
const VIEWS = { overlay: "heat map", mask: "mask", cutout: "cutout", "masked-out": "masked out", inpainted: "inpainted" };
const $ = id => document.getElementById(id);
const photos = []; // each: file, name, raws by mapping, boxes (null, or the corrected ones), error, example
let current = null, open = null, shown = null, selected = null, waiting = Promise.resolve();
const stage = new Stage({ select, change: (index, box) => correct(boxes => boxes.splice(index, 1, box), index), add: addBox, pick });

const report = text => { $("status").textContent = text; };
const sentence = error => String(error.message || error);
const checked = name => document.querySelector(`input[name="${name}"]:checked`).value;
const rule = () => ({ [$("rule").value]: Number($("level").value) });
const which = () => $("largest").checked ? "largest" : "all";

async function start() {
  const mappings = await engine.mappings();
  for (const { name } of mappings) for (const id of ["mapping", "other"]) $(id).add(new Option(name, name));
  $("other").add(new Option("the photo", ""), 0);
  $("other").value = "";
  for (const id of ["other-label", "mapping-label"]) $(id).hidden = mappings.length < 2;
  $("named-label").hidden = !mappings.some(({ predicts }) => predicts);
  for (const [value, text] of Object.entries(engine.formats)) $("annotations").append(new Option(text, value));
  offerSamples(await engine.samples(), file => add([file]));
  if (photos.length === 0) {
    const blob = await (await fetch(EXAMPLE)).blob();
    enqueue(new File([blob], EXAMPLE, { type: blob.type }), true);
  }
}

function add(files) {
  if (!files.length) return;
  for (const photo of photos.filter(({ example }) => example)) remove(photo);
  for (const file of files) enqueue(file);
}

function enqueue(file, example = false) {
  waiting = waiting.then(() => take(file, example)).catch(error => report(sentence(error)));
}

// Show that the network is at work, and at first what it waits for; the engine's note may say how it has run.
function setBusy(busy) {
  $("note").textContent = engine.note;
  $("stage").setAttribute("aria-busy", busy);
  if (busy && !current) $("empty").textContent = engine.loading;
}

async function take(file, example) {
  if (example && photos.length) return; // somebody was faster
  const photo = { file, name: file.name, raws: new Map(), boxes: null, error: null, example };
  photos.push(photo);
  addTile(photo, { show, remove });
  report(example ? "" : `Processing ${file.name} …`);
  setBusy(true);
  try {
    await mapped(photo);
  } catch (error) {
    photo.error = sentence(error);
    report(`${file.name}: ${photo.error}`);
  }
  setBusy(false);
  if (!photos.includes(photo)) return;
  if (!current || current.error) await show(photo);
  else update();
  if (!photo.error && !example) report(`${file.name}: ${photo === current ? $("found").textContent : "done"}`);
}

// A photo with its pixels; only the one that is shown keeps them.
async function opened(photo, file = photo.file) {
  if (open?.of === photo && file === photo.file) return open;
  const made = Object.assign(new OpenPhoto(await openPixels(file, engine.convert)), { of: photo });
  if (photo === current) open = made;
  return made;
}

// Run the chosen mappings on a photo, each once.
async function mapped(photo) {
  for (const name of new Set([$("mapping").value, $("other").value].filter(Boolean))) {
    if (!photo.raws.has(name)) photo.raws.set(name, await engine.map(photo.file, name, () => opened(photo)));
  }
}

async function show(photo) {
  if (current !== photo) selected = null;
  current = photo;
  photo.error = null; // a server that was busy may answer now
  try {
    await mapped(photo);
    if (current !== photo) return;
    const [raw] = photo.raws.values(), { width, height } = await opened(photo);
    if (width !== raw.width || height !== raw.height) await opened(photo, await engine.convert(photo.file)); // rotated in another way
  } catch (error) {
    photo.error = sentence(error);
  }
  if (current === photo) update();
}

// Show the current photo with the current settings; nothing is sent.
function update() {
  const ready = current && !current.error && open?.of === current && [$("mapping").value, $("other").value].every(name => !name || current.raws.has(name));
  shown = ready ? analysed($("mapping").value) : null;
  $("picture").hidden = !ready;
  $("empty").hidden = Boolean(ready);
  $("empty").textContent = current?.error ?? "Drop photos here, paste one, or open some.";
  $("empty").classList.toggle("failed", Boolean(current?.error));
  $("name").textContent = current?.name ?? "";
  $("level-value").textContent = Number($("level").value).toFixed(2);
  if (ready) paint();
  describe();
  markTiles(photos, current);
  $("clear").hidden = photos.length < 2;
  $("add").disabled = !ready;
  $("reset").hidden = !current?.boxes;
  enableDownload();
}

function analysed(mapping) {
  return open.analyse(current.raws.get(mapping), checked("edges"), rule(), which(), current.boxes);
}

function paint() {
  const view = checked("view"), other = $("other").value, name = VIEWS[view];
  const left = other ? open.view(view, analysed(other)) : open.small();
  const names = other ? [other, $("mapping").value] : ["photo", name];
  stage.paint(open, left, open.view(view, shown), names, view === "cutout");
  $("before").setAttribute("aria-label", `${current.name}, ${other ? `${name} of ${other}` : "photo"}`);
  $("after").setAttribute("aria-label", `${current.name}, ${name}: ${summary()}`);
}

// What was found, with the numbers of the command line.
function summary() {
  if (current?.error) return current.error;
  if (!shown) return "";
  const { objects, found, box, flat, mask, corrected } = shown;
  if (flat && !corrected) return "no object found";
  const small = box && !objects.length && !corrected, parts = [];
  const kept = (small ? found.slice(0, 1) : objects).reduce((sum, { area }) => sum + area, 0);
  if (!corrected) parts.push(box ? `box ${box.join(", ")}` : "no object found");
  if (objects.length > 1 || corrected) parts.push(`${objects.length} object${objects.length === 1 ? "" : "s"}`);
  parts.push(`${percent(kept / mask.length)} of the photo kept${small ? ", too small for an object" : ""}`);
  return parts.join("; ");
}

function describe() {
  const raw = shown && current.raws.get($("mapping").value), label = raw?.label;
  $("found").textContent = summary();
  $("label").hidden = !label;
  $("label").textContent = label ? `${label} ${percent(raw.confidence)}` : "";
  $("label").title = "predicted class and its probability";
  const objects = shown?.objects ?? [];
  if (selected !== null && selected >= objects.length) selected = null;
  const outlined = checked("view") === "overlay"; // the other views show the edges themselves
  stage.mark(objects.map(({ box, runs }, i) => ({
    box, text: i === 0 && label ? `${label} ${percent(raw.confidence)}` : "", outlines: outlined ? open.outlines(runs) : [],
  })), selected);
  listObjects(objects, selected, shown?.mask.length, { select, remove: removeObject, move });
  $("edit-help").hidden = !shown;
}

function select(index) {
  selected = index;
  describe();
}

// Change the objects of the current photo; the boxes become part of the downloads.
function correct(change, now = null) {
  const boxes = shown.objects.map(({ box }) => [...box]);
  change(boxes);
  current.boxes = boxes;
  selected = now;
  update();
}

function addBox(box) {
  setAdding(false);
  correct(boxes => boxes.push(box), shown.objects.length);
  report("Added an object.");
}

// Add a box in the middle of the photo, which the arrow keys then move.
const addByKeyboard = () => { addBox(stage.middle()); focusLast(); };

// Add the region of the mask at a pixel.
function pick(x, y) {
  const part = componentAt(shown.found, x, y);
  if (!part && !stage.adding) return select(null);
  if (!part) return report("The mask marks nothing here: drag to draw a box, or lower the threshold.");
  if (shown.objects.some(one => one.box.every((side, i) => side === part.box[i]))) return report("This region is an object already.");
  addBox(part.box);
}

function removeObject(index) {
  correct(boxes => boxes.splice(index, 1));
  report("Removed an object.");
}

// Move a box, or its lower right corner.
function move(index, across, down, corner) {
  const { box } = shown.objects[index], moved = corner ? stage.resized(box, across, down) : stage.moved(box, across, down);
  correct(boxes => boxes.splice(index, 1, moved), index);
}

function setAdding(adding) {
  stage.adding = adding;
  $("add").setAttribute("aria-pressed", adding);
  stage.render();
  if (adding) report("Click a region of the mask, or drag to draw a box.");
}

function remove(photo) {
  const at = photos.indexOf(photo);
  photos.splice(at, 1);
  photo.tile.remove();
  if (open?.of === photo) open = null;
  if (photo !== current) return update();
  current = null;
  if (!photo.example) report(`Removed ${photo.name}.`);
  if (photos.length) show(photos[Math.min(at, photos.length - 1)]);
  else update();
}

const isPicture = () => $("format").value in VIEWS;
const good = () => photos.filter(({ error, raws }) => !error && raws.size);

function enableDownload() {
  const few = good().length;
  $("download").disabled = isPicture() ? !shown : few === 0;
  $("download").textContent = isPicture() || few < 2 ? "Download" : `Download (${few} photos)`;
}

async function download() {
  const format = $("format").value, options = { mapping: $("mapping").value, ...rule(), edges: checked("edges") };
  report("Writing …");
  try {
    if (isPicture()) return report(await savePicture(format, { photo: current, open, shown }, { ...options, objects: which() }));
    const classes = $("named").checked ? "predicted" : "none";
    report(await saveAnnotations(format, good(), { ...options, objects: which(), classes }, analysedAlone));
  } catch (error) {
    report(`Not saved: ${sentence(error)}`);
  }
}

// What the page finds in any photo; for an engine that writes annotations by itself.
async function analysedAlone(photo) {
  await mapped(photo); // perhaps by another mapping before
  const pixels = await opened(photo), raw = photo.raws.get($("mapping").value);
  return { ...pixels.analyse(raw, checked("edges"), rule(), which(), photo.boxes), label: raw.label };
}

function changeRule() {
  const [name, low, high, value] = RULES[$("rule").value];
  Object.assign($("level"), { min: low, max: high });
  $("level").value = value;
  $("level-name").textContent = name;
  settle();
}

// After a change of a setting: what the status line says is about an earlier one.
function settle() {
  report("");
  update();
}

for (const id of ["files", "camera", "more"]) $(id).addEventListener("change", event => { add([...event.target.files]); event.target.value = ""; });
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, event => { event.preventDefault(); document.body.classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) document.addEventListener(kind, () => document.body.classList.remove("over"));
document.addEventListener("drop", event => { event.preventDefault(); add([...event.dataTransfer.files]); });
document.addEventListener("paste", event => add([...event.clipboardData.files]));
document.addEventListener("keydown", event => {
  if (event.key === "Tab") document.body.classList.add("keys");
  if (event.target.matches?.("input, select")) return;
  if (event.key === "Delete" && selected !== null) removeObject(selected);
  if (event.key === "Escape") { setAdding(false); select(null); }
});
for (const id of ["level", "views", "edges"]) $(id).addEventListener("input", settle);
$("rule").addEventListener("change", changeRule);
$("largest").addEventListener("change", settle);
for (const id of ["mapping", "other"]) {
  $(id).addEventListener("change", () => { waiting = waiting.then(() => current && show(current)); });
}
$("zoom").addEventListener("change", () => {
  $("picture").classList.toggle("zoomed", $("zoom").value !== "fit");
  $("picture").style.setProperty("--zoom", $("zoom").value);
});
$("add").addEventListener("click", event => event.detail ? setAdding(!stage.adding) : addByKeyboard()); // detail: clicks of a pointer
$("reset").addEventListener("click", () => { current.boxes = null; selected = null; report("The corrections are undone."); update(); });
$("format").addEventListener("change", enableDownload);
$("download").addEventListener("click", download);
$("clear").addEventListener("click", () => { while (photos.length) remove(photos[0]); });
start().catch(error => report(`Cannot start: ${sentence(error)}`));
