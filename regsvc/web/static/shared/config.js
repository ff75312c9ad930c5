// The public config of this host: the `config` of GET /api/config, which the server puts into every page.

/** @type {Config} */
export const config = JSON.parse(document.body.dataset.config ?? "{}");
