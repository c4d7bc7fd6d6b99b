// The conformance program: one job a line on stdin, one outcome a line on stdout, in order, until stdin ends.

import { createInterface } from "node:readline";

import { connectionTo, type Connection } from "../src/transport.js";
import { runVector, type Vector } from "./run.js";

const connections = new Map<string, Connection>();

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (line.trim() !== "") {
    const { address, vector } = JSON.parse(line) as { address: string; vector: Vector };
    let connection = connections.get(address);
    if (connection === undefined) {
      connection = connectionTo({ target: address });
      connections.set(address, connection);
    }
    process.stdout.write(`${JSON.stringify(await runVector(vector, connection.transport))}\n`);
  }
}
for (const connection of connections.values()) {
  connection.close();
}
