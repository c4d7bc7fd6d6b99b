// A monopath server of the tests' own, as a subprocess.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";

/** The repository. */
export const ROOT = fileURLToPath(new URL("../../../../../", import.meta.url));
/** This package. */
export const PACKAGE = fileURLToPath(new URL("../../../", import.meta.url));
/** The command line of the Python package. */
export const MONOPATH = process.env["MONOPATH_BIN"] ?? `${ROOT}.venv/bin/monopath`;
/** A real photograph, and a picture with an alpha channel. */
export const PHOTOGRAPHS = process.env["MONOPATH_PHOTOGRAPHS"] ?? `${ROOT}.venv/photographs/skimage/data`;

/** A running server. */
export interface Server {
  readonly address: string;
  /** Ends it and waits for that. */
  stop(): Promise<void>;
}

/** Starts a server at an address and waits until it is ready. The first start compiles its kernels. */
export async function startServer(address: string, ...options: string[]): Promise<Server> {
  const serve = ["serve", "--address", address, "--cuda", "off", "--grace", "5", ...options];
  const child = spawn(MONOPATH, serve, { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const ready = firstLine(child);
  const line = await Promise.race([ready, exited.then(([code]) => `ended with exit code ${String(code)}`)]);
  const told = / is ready at (\S+)$/.exec(line)?.[1];
  if (told === undefined) {
    child.kill("SIGKILL");
    throw new Error(`Expected a server that is ready, got: ${line}`);
  }
  return {
    address: told,
    async stop() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** What `monopath preprocess --json` of the Python client says about one file. */
export function pythonSays(address: string, file: string, ...options: string[]): Record<string, unknown> {
  const command = ["preprocess", "--json", "--server", address, ...options, file];
  const { stdout, stderr, status } = spawnSync(MONOPATH, command, { encoding: "utf8", timeout: 120_000 });
  if (status !== 0) {
    throw new Error(`Expected the Python client to succeed, got exit code ${String(status)}: ${stderr}`);
  }
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function firstLine(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) {
    return line;
  }
  return "nothing";
}
