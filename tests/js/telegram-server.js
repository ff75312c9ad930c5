// A Telegram server in memory, for the tests in Python: listens on the port that is given until its input ends.
import TelegramServer from "telegram-test-api";

const server = new TelegramServer({ port: Number(process.argv[2]), host: "127.0.0.1", storeTimeout: 3600 });
await server.start();
process.stdout.write("listening\n");
process.stdin.on("end", () => process.exit(0)).resume();
