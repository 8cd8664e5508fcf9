/**
 * Keeps the playground for the next visit, even without a network.
 *
 * The files of Python lie in folders that are named after their hashes, so a kept one is never old;
 * worker.js checks and keeps them. All else is asked of the server first.
 */

const worker = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));

const HOME = new URL("./", worker.location.href);
const PAGE = `${HOME.pathname}page`;

/**
 * What the page loads before a first visit's worker has control; build.py writes the names.
 *
 * @type {string[]}
 */
const FILES = [];

worker.addEventListener("install", (event) => {
  event.waitUntil(caches.open(PAGE).then((cache) => cache.addAll(FILES.map((name) => new URL(name, HOME).href))));
  worker.skipWaiting();
});
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || !url.href.startsWith(HOME.href)) return;
  const isPython = url.pathname.startsWith(`${HOME.pathname}python-`);
  event.respondWith(isPython ? keptPython(event.request) : newestPage(event.request));
});

/** @param {Request} request */
async function keptPython(request) {
  const kept = await caches.match(request.url);
  if (kept !== undefined) return kept;
  // The list of files is kept here: it has the name of its folder, as the files have.
  if (!request.url.endsWith("/files.json")) return fetch(request);
  return newestPage(request);
}

/** @param {Request} request */
async function newestPage(request) {
  const cache = await caches.open(PAGE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request.url.split("#")[0] ?? "", response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request.url, { ignoreSearch: true });
    if (kept === undefined) throw error;
    return kept;
  }
}
