"""The limit: a Tornado handler that returns the same JSON without a database. `python -m tests.bench.bare PORT`."""

import asyncio
import json
import sys

from tornado.web import Application, RequestHandler

STATUS = json.dumps({"success": True, "data": {"registered": True, "username": "Alice_1", "status": "approved"}})


class StatusHandler(RequestHandler):
    def get(self) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(STATUS)


async def main(port: int) -> None:
    Application([("/api/user/status", StatusHandler)]).listen(port, "127.0.0.1")
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
