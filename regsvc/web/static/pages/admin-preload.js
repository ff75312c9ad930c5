// Asks for the script of the inside while the page's own is on its way, if an operator is logged in. It waits neither
// for the style sheet nor for the end of the page; where it comes before that, the page's script asks.
// Where the session is kept, `shared/session.js` says.

const href = document.body?.dataset.parts?.split(" ")[0];
if (href !== undefined && "companion.admin" in sessionStorage) {
  document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href }));
}
