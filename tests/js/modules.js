// A loader hook: every `.js` file is an ES module.

export async function load(url, context, next) {
  return next(url, url.endsWith(".js") ? { ...context, format: "module" } : context);
}
