// The admin page: the login of operators. Its inside is loaded once somebody logs in.

import { enter, session, showLogin } from "../admin/login.js";
import { startPage } from "../shared/page.js";

startPage(() => (session.current === null ? showLogin() : enter(session.current.username)));
