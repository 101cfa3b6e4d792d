// The service worker: keeps all files of the page, so that it works offline. `casmap page` fills in both constants.
const NAME = "@NAME@", FILES = "@FILES@";
// A site with two builds of ONNX Runtime, each in its folder, names the one that this browser runs: `worker.js?FOLDER`.
const [BUILD] = new URLSearchParams(self.location.search).keys();
const USED = FILES.filter(file => !BUILD || !/^ort.*\//.test(file) || file.startsWith(`${BUILD}/`));
const OWN = `casmap ${self.registration.scope} `, KEPT = OWN + NAME; // a host may have several such pages

self.addEventListener("install", event => {
  // no-cache: the host says whether a file in the browser's own cache has changed, and sends it only then.
  const fresh = USED.map(file => new Request(file, { cache: "no-cache" }));
  event.waitUntil(caches.open(KEPT).then(cache => cache.addAll(fresh)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", event => {
  const old = names => names.filter(name => name.startsWith(OWN) && name !== KEPT);
  event.waitUntil(caches.keys().then(names => Promise.all(old(names).map(name => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener("fetch", event => {
  const kept = async () => {
    const cache = await caches.open(KEPT), found = await cache.match(event.request, { ignoreSearch: true });
    return found ?? (event.request.mode === "navigate" ? cache.match("./") : undefined);
  };
  // Large files have a name for each content. Small ones come from the host while it answers: it may have a new page,
  // or another one, at this address. no-cache: ask the host also about what the browser's own cache has.
  const large = /\.(onnx|wasm)$/.test(new URL(event.request.url).pathname);
  const asked = async () => (large ? await kept() : undefined) ?? fetch(event.request, { cache: "no-cache" }).catch(async error => (await kept()) ?? Promise.reject(error));
  event.respondWith(asked());
});
