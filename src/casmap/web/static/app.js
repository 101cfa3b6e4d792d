// The page: sends each photo to the server once, gets its mask, and draws all views in the browser.
"use strict";

const LONGEST = 320; // pixels: longer side of a view
const RULES = { threshold: [0.05, 0.95, 0.5], alpha: [0.1, 3, 1] }; // of the slider: least, most, at first
const $ = id => document.getElementById(id);
const photos = [];
let mappings = [];
let waiting = Promise.resolve();

async function start() {
  mappings = await (await fetch("api/mappings")).json();
  for (const { name } of mappings) {
    $("mapping").add(new Option(name, name));
    $("other").add(new Option(name, name));
  }
  $("other").add(new Option("none", ""), 0);
  $("other").value = "";
  $("other-label").hidden = mappings.length < 2;
  await offerFreePhotos();
}

async function offerFreePhotos() {
  const names = await (await fetch("api/photos")).json();
  for (const name of names) {
    const button = document.createElement("button"), image = document.createElement("img");
    button.type = "button";
    image.src = `api/photos/${encodeURIComponent(name)}`;
    image.alt = `Use the sample photo ${name.replace(/[._].*/, "")}`;
    button.append(image);
    button.addEventListener("click", async () => {
      const blob = await (await fetch(image.src)).blob();
      add([new File([blob], name, { type: blob.type })]);
    });
    $("free").append(button);
  }
  $("free").hidden = names.length === 0;
}

function report(text) { $("status").textContent = text; }

function add(files) {
  for (const file of files) waiting = waiting.then(() => take(file)).catch(error => report(String(error.message || error)));
}

async function take(file) {
  const photo = { file, name: file.name, maps: new Map() };
  photo.card = $("card").content.firstElementChild.cloneNode(true);
  photo.card.querySelector("h3").textContent = file.name;
  photo.card.querySelector(".png").addEventListener("click", () => downloadPng(photo));
  photo.card.querySelector(".yolo").addEventListener("click", () => download(`${stem(photo.name)}.txt`, [photo], { format: "yolo", ending: ".txt" }));
  photo.card.querySelector(".remove").addEventListener("click", () => remove(photo));
  photos.push(photo);
  $("results").prepend(photo.card);
  report(`Processing ${file.name} …`);
  await show(photo);
  update();
  report(`${file.name}: ${photo.card.querySelector(".found").textContent}`);
}

// Fetch the missing masks, then draw.
async function show(photo) {
  try {
    for (const name of chosen()) if (!photo.maps.has(name)) photo.maps.set(name, await fetchMap(photo, name));
    if (!photo.pixels) await readPixels(photo);
    draw(photo);
  } catch (error) {
    photo.card.classList.add("failed");
    photo.card.querySelector(".found").textContent = String(error.message || error);
    for (const button of photo.card.querySelectorAll(".png, .yolo")) button.disabled = true;
    photo.failed = true;
  }
}

async function fetchMap(photo, mapping) {
  const answer = await fetch(`api/map?mapping=${encodeURIComponent(mapping)}`, { method: "POST", body: photo.file });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.detail);
  const bytes = Uint8Array.from(atob(content.mask), letter => letter.charCodeAt(0));
  return { ...content, image: await createImageBitmap(new Blob([bytes], { type: "image/png" })) };
}

async function readPixels(photo) {
  const [map] = photo.maps.values();
  const scale = Math.min(1, LONGEST / Math.max(map.width, map.height));
  photo.width = Math.max(1, Math.round(map.width * scale));
  photo.height = Math.max(1, Math.round(map.height * scale));
  photo.scale = [map.width / photo.width, map.height / photo.height];
  photo.full = [map.width, map.height];
  let source;
  try {
    source = await createImageBitmap(photo.file); // applies the EXIF orientation
  } catch { // the browser cannot open this format: the server converts it (alpha 0 keeps every pixel)
    const answer = await fetch("api/view?view=masked-in&alpha=0", { method: "POST", body: photo.file });
    source = await createImageBitmap(await answer.blob());
  }
  const canvas = new OffscreenCanvas(photo.width, photo.height), context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, photo.width, photo.height);
  context.drawImage(source, 0, 0, photo.width, photo.height);
  photo.pixels = context.getImageData(0, 0, photo.width, photo.height).data;
}

function chosen() { return [...new Set([$("mapping").value, $("other").value].filter(Boolean))]; }

// The mask at the size of the view, 0..255.
function maskValues(photo, map) {
  if (!map.values) {
    const context = new OffscreenCanvas(photo.width, photo.height).getContext("2d");
    context.drawImage(map.image, 0, 0, photo.width, photo.height);
    const data = context.getImageData(0, 0, photo.width, photo.height).data;
    map.values = Uint8Array.from({ length: photo.width * photo.height }, (_, i) => data[4 * i]);
  }
  return map.values;
}

function analyse(photo, map) {
  const { width, height } = photo, values = maskValues(photo, map);
  const whole = binaryMask(values, rule());
  const binary = $("largest").checked ? largestComponent(whole, width, height) : whole;
  const flat = map.flat || isFlat(values);
  return { values, binary, flat, box: flat ? null : tightBox(binary, width, height) };
}

function toPhotoPixels(photo, box) {
  const [across, down] = photo.scale, [width, height] = photo.full;
  return [
    Math.round(box[0] * across), Math.round(box[1] * down),
    Math.min(width, Math.round(box[2] * across)), Math.min(height, Math.round(box[3] * down)),
  ];
}

function draw(photo) {
  if (photo.failed) return;
  const views = photo.card.querySelector(".views"), lines = [];
  views.replaceChildren();
  for (const name of chosen()) {
    const map = photo.maps.get(name);
    if (!map) continue;
    const found = analyse(photo, map);
    if (chosen().length > 1) {
      const title = document.createElement("h4");
      title.textContent = name;
      views.append(title);
    }
    const kept = found.binary, left = kept.map(b => 1 - b);
    const grey = new Uint8ClampedArray(kept.length * 4).fill(255);
    found.values.forEach((value, i) => { grey[4 * i] = grey[4 * i + 1] = grey[4 * i + 2] = value; });
    const pictures = [
      ["photo and box", photo.pixels, found.box], ["mask", grey], ["masked in", masked(photo.pixels, kept)],
      ["masked out", masked(photo.pixels, left)], ["inpainted", inpaint(photo.pixels, kept, photo.width, photo.height)],
    ];
    for (const [caption, pixels, box] of pictures) views.append(figure(photo, caption, pixels, box));
    const share = (100 * kept.reduce((sum, b) => sum + b, 0) / kept.length).toFixed(0);
    lines.push([
      `${chosen().length > 1 ? `${name}: ` : ""}${found.box ? `box ${toPhotoPixels(photo, found.box).join(", ")}` : "no object found"}`,
      ...(found.flat ? [] : [`${share} % of the photo kept`]), ...(map.label ? [`predicted class: ${map.label}`] : []),
    ].join("; "));
  }
  photo.card.querySelector(".found").textContent = lines.join(" · ");
}

function figure(photo, caption, pixels, box) {
  const frame = document.createElement("figure"), canvas = document.createElement("canvas");
  canvas.width = photo.width;
  canvas.height = photo.height;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${photo.name}, ${caption}`);
  const context = canvas.getContext("2d");
  context.putImageData(new ImageData(Uint8ClampedArray.from(pixels), photo.width, photo.height), 0, 0);
  if (box) {
    for (const [colour, width] of [["black", 4], ["white", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(box[0] + 1, box[1] + 1, box[2] - box[0] - 2, box[3] - box[1] - 2);
    }
  }
  const text = document.createElement("figcaption");
  text.textContent = caption;
  frame.append(canvas, text);
  return frame;
}

// The rule of the binary mask, as an option of the server: { threshold } or { alpha }.
function rule() { return { [$("rule").value]: Number($("level").value) }; }

function changeRule() {
  const slider = $("level"), [low, high, value] = RULES[$("rule").value];
  [slider.min, slider.max, slider.value] = [low, high, value];
  $("level-name").textContent = $("rule").value;
  redraw();
}

function redraw() {
  $("level-value").textContent = Number($("level").value).toFixed(2);
  for (const photo of photos) draw(photo);
}

function update() {
  const some = photos.some(photo => !photo.failed);
  $("coco").disabled = !some;
  $("clear").disabled = photos.length === 0;
}

function remove(photo) {
  photos.splice(photos.indexOf(photo), 1);
  photo.card.remove();
  update();
  report(`Removed ${photo.name}.`);
  $("results").focus();
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const stem = name => name.replace(/\.[^.]*$/, "");

function downloadPng(photo) {
  const drawn = [...photo.card.querySelectorAll("canvas")], gap = 4, across = 5;
  const rows = Math.ceil(drawn.length / across);
  const canvas = document.createElement("canvas");
  canvas.width = Math.min(across, drawn.length) * (photo.width + gap) - gap;
  canvas.height = rows * (photo.height + gap) - gap;
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  drawn.forEach((one, i) => {
    context.drawImage(one, (i % across) * (photo.width + gap), Math.floor(i / across) * (photo.height + gap));
  });
  canvas.toBlob(blob => save(`${stem(photo.name)}-casmap.png`, blob));
}

$("files").addEventListener("change", event => { add(event.target.files); event.target.value = ""; });
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, event => { event.preventDefault(); $("drop").classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) document.addEventListener(kind, () => $("drop").classList.remove("over"));
document.addEventListener("drop", event => { event.preventDefault(); add(event.dataTransfer.files); });
$("level").addEventListener("input", redraw);
$("rule").addEventListener("change", changeRule);
$("largest").addEventListener("change", redraw);
for (const id of ["mapping", "other"]) {
  $(id).addEventListener("change", () => { for (const photo of photos) waiting = waiting.then(() => show(photo)); });
}
$("coco").addEventListener("click", () =>
  download("annotations.json", photos.filter(photo => !photo.failed), { format: "coco", rle: true }));
$("clear").addEventListener("click", () => { while (photos.length) remove(photos[0]); });
start().catch(error => report(`Cannot reach the server: ${error.message || error}`));
