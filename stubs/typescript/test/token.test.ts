import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, test } from "node:test";

import { createClient, DataType, StreamError, type ClientOptions, type TokenSource } from "../src/index.js";
import { collect, signalled, THREE } from "./support/collect.js";
import { fakeServer, good, type Script } from "./support/fake.js";

const folder = mkdtempSync(`${tmpdir()}/monopath-ts-token-`);
after(() => rmSync(folder, { recursive: true }));

/** Runs `body` with what maps three images at a server, and the `authorization` that each stream came with. */
async function withServer(
  options: Omit<ClientOptions, "target">,
  body: (map: (options?: { signal?: AbortSignal }) => Promise<unknown>, seen: (string | null)[]) => Promise<void>,
): Promise<void> {
  const seen: (string | null)[] = [];
  const script: Script = (requests, context) => {
    seen.push(context.requestHeader.get("authorization"));
    return good(requests);
  };
  const fake = await fakeServer(script);
  const client = createClient({ target: fake.target, ...options });
  try {
    const stream = client.streamDeferredCpu({ preset: "fake", dataType: DataType.UINT8 });
    await body((mapped) => collect(stream, THREE, mapped), seen);
  } finally {
    client.close();
    await fake.close();
  }
}

test("a token is sent with each stream, and none where there is none", async () => {
  await withServer({ token: "a-._~+/1==" }, async (map, seen) => {
    await map();
    await map();
    assert.deepEqual(seen, ["Bearer a-._~+/1==", "Bearer a-._~+/1=="]);
  });
  await withServer({}, async (map, seen) => {
    await map();
    assert.deepEqual(seen, [null]);
  });
});

test("a function is asked for the token of each stream, and may take its time", async () => {
  let calls = 0;
  const token = (): string | Promise<string> => (++calls === 1 ? "first" : Promise.resolve("second"));
  await withServer({ token }, async (map, seen) => {
    await map();
    await map();
    assert.deepEqual(seen, ["Bearer first", "Bearer second"]);
  });
});

test("a file is read again for each stream, and while it cannot be, the token of before holds", async () => {
  const file = `${folder}/token`;
  writeFileSync(file, "# until the first of the month\n\n  first  \nother\n");
  await withServer({ token: { file } }, async (map, seen) => {
    await map();
    writeFileSync(file, "second");
    await map();
    writeFileSync(file, "half a line");
    await map();
    rmSync(file);
    await map();
    assert.deepEqual(seen, ["Bearer first", "Bearer second", "Bearer second", "Bearer second"]);
  });
  assert.throws(() => createClient({ target: "127.0.0.1:1", token: { file } }), { code: "ENOENT" });
});

test("a function that throws, or returns no token, fails its call, and the server is not asked", async () => {
  const lost = new Error("The vault is closed");
  const sources: [TokenSource, RegExp][] = [
    [() => Promise.reject(lost), /The vault is closed/],
    [() => "se cret", /Expected what the function for tokens returns to be letters, digits and/],
    [() => undefined as unknown as string, /Expected what the function for tokens returns to be/],
  ];
  for (const [token, message] of sources) {
    await withServer({ token }, async (map, seen) => {
      await assert.rejects(map(), (error) => {
        assert.ok(error instanceof StreamError);
        assert.deepEqual([error.code, error.retryable], ["UNAUTHENTICATED", false]);
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /se cret/);
        return true;
      });
      assert.deepEqual(seen, []);
    });
  }
});

test("a signal ends a call that still waits for its token", async () => {
  const asked = signalled();
  const token = (): Promise<string> => {
    asked.resolve();
    return new Promise(() => undefined);
  };
  await withServer({ token }, async (map) => {
    const stop = new AbortController();
    const mapped = map({ signal: stop.signal });
    await asked.promise;
    stop.abort(new Error("enough"));
    await assert.rejects(mapped, /enough/);
  });
});

test("a header of the caller's own prevails over the token", async () => {
  await withServer({ token: "ours", headers: { Authorization: "Basic dGhlaXJz" } }, async (map, seen) => {
    await map();
    assert.deepEqual(seen, ["Basic dGhlaXJz"]);
  });
});

test("a token is refused in plaintext beyond this host, and taken where nobody can read it", () => {
  const tls = {};
  const beyond = ["10.0.0.2:50051", "http://features.example.com", "127.0.0.1.example.com:1", "localhost.example:1"];
  for (const target of [...beyond, "0.0.0.0:1", "[::2]:1"]) {
    assert.throws(() => createClient({ target, token: "t" }), /TypeError: Expected TLS for a token beyond this host/);
    createClient({ target }).close();
  }
  for (const target of ["unix:/run/monopath", "127.0.0.1:1", "127.8.9.1:1", "LocalHost:1", "[::1]:1", "http://[::1]"]) {
    createClient({ target, token: "t" }).close();
  }
  createClient({ target: "https://features.example.com", token: "t" }).close();
  createClient({ target: "features.example.com:50051", token: "t", tls }).close();
});

test("what is no token is refused at once, and not shown", () => {
  for (const token of ["", "two words", "line\n", "=pad", "tökén", 7 as unknown as string]) {
    assert.throws(
      () => createClient({ target: "127.0.0.1:1", token }),
      /^TypeError: Expected the token to be letters, digits and -\._~\+\/ only, got something else$/,
    );
  }
});
