// Worker that solves one captcha without a picture: it gets the challenge and answers with the number.

import { findNumber } from "./proof-of-work.js";

addEventListener("message", ({ data }) => {
  postMessage(findNumber(data));
  close();
});
