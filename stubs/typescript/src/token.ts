// A client's bearer token: given, from a file, or from who makes them.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

import { Code, ConnectError } from "@connectrpc/connect";

/**
 * A token; or a file whose first line is one, or a function that returns one. These two are asked again for each call,
 * so that a token can be replaced. Lines of a file that begin with # do not count.
 */
export type TokenSource = string | { readonly file: string } | (() => string | Promise<string>);

const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/**
 * Returns what tells the token of now. While a file cannot be read, that is the token of before; where a function
 * throws or returns no token, the call fails with UNAUTHENTICATED. Throws TypeError for what is no token, and what
 * reading the file throws.
 */
export function tokenReader(source: TokenSource): () => string | Promise<string> {
  if (typeof source === "function") {
    return () => made(source);
  }
  if (typeof source !== "object") {
    const token = checked(source, "the token");
    return () => token;
  }
  const { file } = source;
  let latest = firstToken(readFileSync(file, "utf8"), file);
  return async () => {
    try {
      latest = firstToken(await readFile(file, "utf8"), file);
    } catch {
      // It is being replaced, or gone; the server says so if the token of before does not hold any more.
    }
    return latest;
  };
}

async function made(source: () => string | Promise<string>): Promise<string> {
  try {
    return checked(await source(), "what the function for tokens returns");
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new ConnectError(message, Code.Unauthenticated, undefined, undefined, error);
  }
}

function firstToken(content: string, file: string): string {
  const lines = content.split("\n").map((line) => line.trim());
  return checked(lines.find((line) => line !== "" && !line.startsWith("#")) ?? "", `the first line of ${file}`);
}

function checked(token: string, what: string): string {
  // The text must not show what may be a secret.
  if (typeof token !== "string" || !TOKEN.test(token)) {
    throw new TypeError(`Expected ${what} to be letters, digits and -._~+/ only, got something else`);
  }
  return token;
}
