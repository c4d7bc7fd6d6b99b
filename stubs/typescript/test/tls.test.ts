import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { SecureServerOptions } from "node:http2";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";

import { createClient, DataType, type TlsOptions } from "../src/index.js";
import { makeCertificates, type Certificates } from "./support/certificates.js";
import { collect, THREE } from "./support/collect.js";
import { fakeServer, goodStream, type Fake } from "./support/fake.js";

const NAME = "features.test";
const folder = mkdtempSync(`${tmpdir()}/monopath-ts-tls-`);
let ours: Certificates;
let theirs: Certificates;

before(() => {
  ours = makeCertificates(`${folder}/ours`, "localhost", "127.0.0.1");
  theirs = makeCertificates(`${folder}/theirs`, NAME);
});
after(() => rmSync(folder, { recursive: true }));

function serverTls(who: Certificates, authority?: string): SecureServerOptions {
  return {
    cert: readFileSync(who.certificate),
    key: readFileSync(who.privateKey),
    ...(authority !== undefined && { ca: readFileSync(authority), requestCert: true }),
  };
}

async function withServer(
  tls: SecureServerOptions,
  body: (fake: Fake) => Promise<void>,
  socket?: string,
): Promise<void> {
  const fake = await fakeServer(goodStream, { tls, ...(socket !== undefined && { socket }) });
  try {
    await body(fake);
  } finally {
    await fake.close();
  }
}

/** Maps three images with a client of its own. */
async function resultCount(target: string, tls?: TlsOptions): Promise<number> {
  const client = createClient({ target, token: "token", ...(tls && { tls }) });
  try {
    const stream = client.streamDeferredCpu({ preset: "fake", dataType: DataType.UINT8 });
    return (await collect(stream, THREE)).length;
  } finally {
    client.close();
  }
}

test("a server of an authority that the client knows is spoken to, from a file, its text, and its bytes", async () => {
  await withServer(serverTls(ours), async ({ target }) => {
    const file = ours.authority;
    const text = readFileSync(file, "utf8");
    for (const rootCertificates of [{ file }, text, Buffer.from(text), readFileSync(theirs.authority, "utf8") + text]) {
      assert.equal(await resultCount(target, { rootCertificates }), 3);
    }
    assert.equal(await resultCount(`https://${target}`, { rootCertificates: { file } }), 3);
  });
});

test("a server of another authority is not spoken to, and the error says why", async () => {
  await withServer(serverTls(ours), async ({ target }) => {
    const rootCertificates = { file: theirs.authority };
    const untrusted = {
      name: "StreamError",
      reason: "",
      message: /unable to verify the first certificate/,
    };
    await assert.rejects(resultCount(target, { rootCertificates }), untrusted);
    await assert.rejects(resultCount(target, {}), untrusted);
    await assert.rejects(resultCount(`https://${target}`), untrusted);
  });
});

test("a server has to have the target's name in its certificate, or the one that is given", async () => {
  await withServer(serverTls(theirs), async ({ target }) => {
    const rootCertificates = { file: theirs.authority };
    assert.equal(await resultCount(target, { rootCertificates, serverName: NAME }), 3);
    await assert.rejects(resultCount(target, { rootCertificates }), /IP: 127\.0\.0\.1 is not in the cert's list/);
  });
});

test("a client shows its certificate to a server that wants one", async () => {
  await withServer(serverTls(ours, theirs.authority), async ({ target }) => {
    const rootCertificates = { file: ours.authority };
    const certificate = { file: theirs.certificate };
    const privateKey = { file: theirs.privateKey };
    assert.equal(await resultCount(target, { rootCertificates, certificate, privateKey }), 3);
    await assert.rejects(resultCount(target, { rootCertificates }), { name: "StreamError", reason: "" });
  });
});

test("a unix socket is spoken to with TLS too", async () => {
  const socket = `${folder}/socket`;
  const body = async ({ target }: Fake): Promise<void> => {
    assert.equal(await resultCount(target, { rootCertificates: { file: ours.authority } }), 3);
  };
  await withServer(serverTls(ours), body, socket);
  const named = async ({ target }: Fake): Promise<void> => {
    assert.equal(await resultCount(target, { rootCertificates: { file: theirs.authority }, serverName: NAME }), 3);
  };
  await withServer(serverTls(theirs), named, socket);
});

test("TLS that cannot be is refused when the client is made", () => {
  const [certificate, privateKey] = [{ file: ours.certificate }, { file: ours.privateKey }];
  const open =
    (tls: TlsOptions, target = "127.0.0.1:1") =>
    () =>
      createClient({ target, tls });
  assert.throws(open({}, "http://127.0.0.1"), /TypeError: Expected a target that takes TLS, such as "https:\/\/host"/);
  assert.throws(open({ certificate }), /Expected a certificate of the client and its key, got one of them/);
  assert.throws(open({ privateKey }), /Expected a certificate of the client and its key, got one of them/);
  const otherKey = { file: theirs.privateKey };
  assert.throws(open({ certificate, privateKey: otherKey }), /a certificate of the client and its own key as PEM/);
  assert.throws(open({ certificate: "cert.pem", privateKey }), /a certificate of the client and its own key as PEM/);
  assert.throws(open({ rootCertificates: "ca.pem" }), /certificates of authorities as PEM, got something else/);
  const half = readFileSync(ours.authority, "utf8").replace(/[A-Za-z]{9}/, "");
  assert.throws(open({ rootCertificates: half }), /certificates of authorities as PEM, got something else/);
  assert.throws(open({ rootCertificates: privateKey }), /as PEM in .*server\.key, got something else/);
  assert.throws(open({ rootCertificates: { file: `${folder}/missing` } }), { code: "ENOENT" });
});
