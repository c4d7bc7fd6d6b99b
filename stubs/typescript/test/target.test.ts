import assert from "node:assert/strict";
import { test } from "node:test";

import { parseTarget } from "../src/target.js";

test("each form of a target leads where it says, encrypted where the client has TLS or the URL says so", () => {
  const read = (target: string, hasTls = false): unknown[] => {
    const { baseUrl, socketPath, isEncrypted } = parseTarget(target, hasTls);
    return [baseUrl, socketPath, isEncrypted];
  };
  assert.deepEqual(read("features.example.com:50051"), ["http://features.example.com:50051", undefined, false]);
  assert.deepEqual(read("features.example.com:50051", true), ["https://features.example.com:50051", undefined, true]);
  assert.deepEqual(read("[::1]:50051"), ["http://[::1]:50051", undefined, false]);
  assert.deepEqual(read("https://features.example.com"), ["https://features.example.com", undefined, true]);
  assert.deepEqual(read("https://features.example.com/", true), ["https://features.example.com", undefined, true]);
  assert.deepEqual(read("http://127.0.0.1:8080"), ["http://127.0.0.1:8080", undefined, false]);
  assert.deepEqual(read("unix:/run/monopath/0"), ["http://localhost", "/run/monopath/0", false]);
  assert.deepEqual(read("unix:///run/monopath/0", true), ["https://localhost", "/run/monopath/0", true]);
});

test("what is no target is refused with the forms that there are", () => {
  const wrong = ["", "features.example.com", "dns:///name:50051", "ftp://host", "https://host/path", "https://me@host"];
  for (const target of [...wrong, "unix:", "host:port", "https://host?x=1"]) {
    assert.throws(() => parseTarget(target, false), {
      name: "TypeError",
      message: `Expected a target "host:port", "unix:/path" or "https://host", got ${JSON.stringify(target)}`,
    });
  }
});
