import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

import { MONOPATH } from "./server.js";

/** Files of an authority and of a certificate that comes from it, which serves a server or a client. */
export interface Certificates {
  readonly authority: string;
  readonly certificate: string;
  readonly privateKey: string;
}

/** Makes an authority of its own in a new folder, and a certificate for these names. */
export function makeCertificates(folder: string, ...names: string[]): Certificates {
  mkdirSync(folder);
  // Node can read certificates, but makes none; the Python that the tests' server runs in has who does.
  const command = ["-m", "trustme", "--quiet", "--dir", folder, "--identities", ...names];
  const made = spawnSync(`${dirname(MONOPATH)}/python`, command, { encoding: "utf8", timeout: 60_000 });
  if (made.status !== 0) {
    throw new Error(`Expected certificates, got exit code ${String(made.status)}: ${made.stderr}`);
  }
  const privateKey = `${folder}/server.key`;
  chmodSync(privateKey, 0o600);
  return { authority: `${folder}/client.pem`, certificate: `${folder}/server.pem`, privateKey };
}
