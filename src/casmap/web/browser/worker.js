// The service worker: keeps all files of the page, so that it works offline. `casmap page` fills in both constants.
const NAME = "@NAME@", FILES = "@FILES@";

self.addEventListener("install", event => {
  event.waitUntil(caches.open(NAME).then(cache => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", event => {
  const old = names => names.filter(name => name.startsWith("casmap-") && name !== NAME);
  event.waitUntil(caches.keys().then(names => Promise.all(old(names).map(name => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener("fetch", event => {
  const kept = caches.open(NAME).then(cache => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(kept.then(found => found ?? fetch(event.request)));
});
