// The admin page: the login of operators. Its inside is loaded once somebody logs in.

import { goInside, session, showLogin } from "../admin/login.js";
import { startPage } from "../shared/page.js";

startPage(() => (session.current === null ? showLogin() : goInside(session.current.username)));
