// ONNX Runtime in the browser: runs networks on the GPU by WebGPU if the site has that build and the browser a GPU,
// otherwise on the CPU by WebAssembly.

// The files of each build. That for WebGPU also runs on the CPU, so a browser loads and keeps one of them only.
const BUILDS = {
  wasm: { main: "ort.wasm.min.js", mjs: "ort-wasm-simd-threaded.js", wasm: "ort-wasm-simd-threaded.wasm" },
  webgpu: { main: "ort.jspi.min.js", mjs: "ort-wasm-simd-threaded.jspi.js", wasm: "ort-wasm-simd-threaded.jspi.wasm" },
};

export class Runtime {
  provider = null; // "webgpu" or "wasm", once a network has run
  #ort = null;
  #attempts = 0;
  #sessions = new Map();
  #turn = Promise.resolve();

  // folders: of the builds that the site has. That for WebGPU waits for the GPU by JSPI (WebAssembly.Suspending).
  constructor(folders) {
    this.build = folders.webgpu && navigator.gpu && WebAssembly.Suspending ? "webgpu" : "wasm";
    this.folder = folders[this.build];
    this.#load().catch(() => {}); // `run` tries again
  }

  // ONNX Runtime, loaded once unless that fails.
  #load() {
    this.#ort ??= started(this.folder, BUILDS[this.build], this.#attempts++).catch(error => {
      this.#ort = null;
      throw error;
    });
    return this.#ort;
  }

  // The outputs of a network, a file, for one input. Calls take turns.
  run(file, input, shape) {
    const turn = this.#turn.then(() => this.#run(file, input, shape));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #run(file, input, shape) {
    const ort = await this.#load();
    this.provider ??= this.build === "webgpu" && await hasGpu() ? "webgpu" : "wasm";
    try {
      return await (await this.#session(ort, file)).run({ images: new ort.Tensor("float32", input, shape) });
    } catch (error) {
      if (this.provider === "wasm") {
        if (!this.#sessions.size) this.#ort = null; // a file of ONNX Runtime may be missing, which it does not ask for twice
        throw error;
      }
      this.provider = "wasm"; // a GPU may lack memory or go away
      this.#sessions.clear();
      await this.#session(ort, file).catch(() => {}); // ONNX Runtime 1.30.0 throws once more after a session that failed
      return this.#run(file, input, shape);
    }
  }

  // The network of a file, loaded once.
  async #session(ort, file) {
    // Severity 3: errors. With WebGPU, ONNX Runtime warns that shapes are computed on the CPU, as they should be.
    const options = { executionProviders: [this.provider], logSeverityLevel: 3 };
    if (!this.#sessions.has(file)) this.#sessions.set(file, await ort.InferenceSession.create(file, options));
    return this.#sessions.get(file);
  }
}

// Browsers keep modules, also those that failed: a further attempt loads them by other addresses.
async function started(folder, { main, mjs, wasm }, attempt) {
  const url = file => new URL(`${folder}/${file}`, import.meta.url).href, again = attempt ? `?${attempt}` : "";
  const ort = await import(url(main) + again);
  ort.env.wasm.wasmPaths = { mjs: url(mjs) + again, wasm: url(wasm) };
  ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  ort.env.logLevel = "error";
  return ort;
}

// A fallback adapter is a GPU in software, which is much slower than WebAssembly.
async function hasGpu() {
  try {
    const adapter = await navigator.gpu.requestAdapter();
    return Boolean(adapter) && !adapter.info?.isFallbackAdapter;
  } catch {
    return false;
  }
}
