// The engine of `casmap page`: runs the network in the browser, and writes annotation files here.
import { annotationFile } from "./annotations.js";
import { Runtime } from "./runtime.js";

const STEP = 4; // pixels along a side of the network's input for which the decoder computes one value

export const loading = "The network is being loaded, once …";
export let note = "Photos stay on this device.";
export const formats = { coco: "COCO (JSON)", yolo: "YOLO (TXT, ZIP)", "label-studio": "Label Studio (ZIP)" };

const RUNS = { webgpu: "Runs on its GPU (WebGPU).", wasm: "Runs on its CPU (WebAssembly)." };
let site = null, runtime = null, worker = null;

export async function mappings() {
  site ??= await (await fetch("mappings.json")).json();
  runtime ??= new Runtime(site.runtime);
  return site.mappings;
}

// Without the worker the page works, but not offline. It keeps the build of ONNX Runtime that is named here. It starts
// when the page has loaded its files, which the browser then has: the host sends them once.
function keepFiles() {
  worker ??= navigator.serviceWorker?.register(site.runtime.webgpu ? `worker.js?${runtime.folder}` : "worker.js").catch(() => {});
}

export async function samples() { return []; }

// The network's output for a photo: width, height, size, side, values, label, confidence.
export async function map(file, mapping, open) {
  const about = site.mappings.find(({ name }) => name === mapping), { size } = about, photo = await open();
  const { masks, logits } = await runtime.run(about.file, normalised(photo.square(size), about), [1, 3, size, size]);
  keepFiles();
  if (site.runtime.webgpu) note = `Photos stay on this device. ${RUNS[runtime.provider]}`;
  const side = Math.ceil(size / STEP), values = new Float32Array(side * side);
  for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) values[y * side + x] = masks.data[STEP * (y * size + x)];
  return { mapping, width: photo.width, height: photo.height, size, side, values, ...predicted(logits.data, about) };
}

// (3, size, size) of (size, size, 3); 0 is the mean colour.
function normalised(square, { mean, std }) {
  const count = square.length / 3, input = new Float32Array(3 * count);
  for (let c = 0; c < 3; c++) {
    const middle = Math.fround(Math.fround(mean[c]) * 255), scale = Math.fround(Math.fround(std[c]) * 255);
    for (let i = 0; i < count; i++) input[c * count + i] = Math.fround(square[3 * i + c] - middle) / scale;
  }
  return input;
}

function predicted(logits, { predicts, titles }) {
  if (!predicts) return { label: null, confidence: null };
  let best = 0, sum = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - logits[best]);
  return { label: titles[best], confidence: 1 / sum };
}

export async function convert() { throw new Error("This browser cannot open the file as an image: convert it to JPEG or PNG, or use casmap serve."); }

export async function view() { return null; } // the page draws it

export const annotations = (photos, format, options, analyse) => annotationFile(photos, format, { ...options, version: site.version }, analyse);
