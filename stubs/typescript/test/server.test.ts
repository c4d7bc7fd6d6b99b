// Against a real server, which is started for this file and ended with it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";

import type { Outcome } from "../conformance/run.js";
import { featureBytes } from "../src/features.js";
import { KimiConfigSchema, ProcessorConfigSchema } from "../src/gen/monopath/v1/config_pb.js";
import {
  AlphaPolicy,
  bfloat16ToFloat32,
  concatenate,
  createClient,
  DataType,
  float16ToFloat32,
  normalizeUint8,
  PixelFormat,
  type Client,
  type Completed,
  type FeatureArray,
  type FeatureDataType,
  type LocalItem,
  type Result,
} from "../src/index.js";
import { makeCertificates } from "./support/certificates.js";
import { MONOPATH, PACKAGE, PHOTOGRAPHS, pythonSays, startServer, type Server } from "./support/server.js";
import { loadVectors, mismatches } from "./support/vectors.js";

const PRESET = "kimi-k2.5";
const PHOTOGRAPH = `${PHOTOGRAPHS}/retina.jpg`;
const OTHER = `${PHOTOGRAPHS}/chelsea.png`;
const TYPES = {
  float32: DataType.FLOAT32,
  uint8: DataType.UINT8,
  bfloat16: DataType.BFLOAT16,
  float16: DataType.FLOAT16,
} as const;

const folder = mkdtempSync(`${tmpdir()}/monopath-ts-`);
let server: Server;
let client: Client;

before(async () => {
  server = await startServer(`unix:${folder}/socket`);
  client = createClient({ target: server.address });
});

after(async () => {
  client?.close();
  await server?.stop();
  rmSync(folder, { recursive: true });
});

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function only<P extends "LOCAL" | "DEFERRED_CPU", D extends FeatureDataType>(
  results: AsyncIterable<Result<P, D>>,
): Promise<Completed<P, D>> {
  for await (const result of results) {
    assert.ok(result.ok, String(result.error));
    return result;
  }
  throw new Error("Expected a result, got none");
}

/** A photograph's features. */
function photograph<D extends FeatureDataType>(dataType: D, file = PHOTOGRAPH): Promise<Completed<"DEFERRED_CPU", D>> {
  return only(client.streamDeferredCpu({ preset: PRESET, dataType }).map([readFileSync(file)]));
}

describe("a photograph", () => {
  for (const [name, dataType] of Object.entries(TYPES)) {
    test(`as ${name} has the bytes, the grid and the tokens that the Python client gets`, async () => {
      const expected = pythonSays(server.address, PHOTOGRAPH, "--preset", PRESET, "--dtype", name);
      const result = await photograph<FeatureDataType>(dataType);
      assert.equal(sha256(featureBytes(result.features)), expected["sha256"]);
      assert.deepEqual(result.gridThw, expected["grid_thw"]);
      assert.equal(result.tokenCount, expected["token_count"]);
      assert.deepEqual(result.shape, expected["shape"]);
      assert.equal(Buffer.from(result.provenance.contentSha256).toString("hex"), expected["content_sha256"]);
      const { widthPx, heightPx } = result.plan.originalSize;
      assert.deepEqual([widthPx, heightPx], expected["original_size"]);
    });
  }

  test("has the same values in every element type, as far as it has digits", async () => {
    const values = (await photograph(DataType.FLOAT32)).features;
    const bfloat16 = bfloat16ToFloat32((await photograph(DataType.BFLOAT16)).features);
    const float16 = float16ToFloat32((await photograph(DataType.FLOAT16)).features);
    for (const [rounded, precision] of [
      [bfloat16, 2 ** -8],
      [float16, 2 ** -11],
    ] as const) {
      assert.equal(rounded.length, values.length);
      const isClose = (value: number, index: number): boolean =>
        Math.abs(rounded[index]! - value) <= precision * Math.abs(value);
      assert.ok(values.every(isClose), `Expected values within ${precision}`);
    }
  });

  test("as uint8 is finished by the table of the opening to the float32 bytes", async () => {
    const stream = client.streamDeferredCpu({ preset: PRESET, dataType: DataType.UINT8 });
    const { features, shape } = await only(stream.map([readFileSync(PHOTOGRAPH)]));
    const finished = normalizeUint8(features, shape, stream.ready!.normalizeTable!);
    assert.deepEqual(finished, (await photograph(DataType.FLOAT32)).features);
  });

  test("goes through LOCAL, and comes back in another element type, as from the server's own path", async () => {
    const made = await photograph(DataType.FLOAT32);
    const { features, dataType, shape, gridThw, tokenCount, plan, provenance } = made;
    const { originalSize } = plan;
    const contentSha256 = provenance.contentSha256;
    const item: LocalItem = {
      path: "LOCAL",
      features,
      dataType,
      shape,
      gridThw,
      tokenCount,
      originalSize,
      contentSha256,
    };
    const stream = client.streamLocal({ preset: PRESET, dataType: DataType.BFLOAT16 });
    const result = await only(stream.map([item]));
    assert.deepEqual(result.features, (await photograph(DataType.BFLOAT16)).features);
    assert.deepEqual(result.provenance.contentSha256, contentSha256);
  });

  test("twice in a batch is the features of both, one after the other", async () => {
    const one = await photograph(DataType.BFLOAT16);
    const two = await photograph(DataType.BFLOAT16, OTHER);
    const batch = concatenate([one, two]);
    const joined = (arrays: FeatureArray[]): Buffer => Buffer.concat(arrays.map(featureBytes));
    assert.equal(sha256(featureBytes(batch.features)), sha256(joined([one.features, two.features])));
    assert.equal(batch.shape[0], one.shape[0]! + two.shape[0]!);
    assert.deepEqual(batch.gridThws, [one.gridThw, two.gridThw]);
  });
});

describe("a photograph of a family without a patch grid", () => {
  for (const [preset, kind] of [
    ["internvl2.5", "tileGrid"],
    ["clip-vit-l-14", "fixedSize"],
  ] as const) {
    test(`of ${preset} has the bytes that the Python client gets, and goes through LOCAL`, async () => {
      const expected = pythonSays(server.address, PHOTOGRAPH, "--preset", preset, "--dtype", "bfloat16");
      const dataType = DataType.BFLOAT16;
      const made = await only(client.streamDeferredCpu({ preset, dataType }).map([readFileSync(PHOTOGRAPH)]));
      assert.equal(sha256(featureBytes(made.features)), expected["sha256"]);
      assert.deepEqual([made.gridThw, made.tokenCount], [undefined, expected["token_count"]]);
      assert.notEqual(made.plan[kind], undefined);
      const { features, shape, tokenCount } = made;
      const { originalSize, tileGrid } = made.plan;
      const item: LocalItem = { path: "LOCAL", features, dataType, shape, tokenCount, originalSize, tileGrid };
      const result = await only(client.streamLocal({ preset, dataType }).map([item]));
      assert.deepEqual(result.features, made.features);
    });
  }
});

test("more images than the server takes at once all come back in order, the damaged one as its own error", async () => {
  const photo = readFileSync(OTHER);
  const images = Array.from({ length: 100 }, (_, index) => (index === 41 ? photo.subarray(0, 1000) : photo));
  const seen = new Set<string>();
  let id = 0;
  for await (const result of client.streamDeferredCpu({ preset: PRESET, dataType: DataType.FLOAT32 }).map(images)) {
    assert.equal(result.id, ++id);
    if (result.ok) {
      seen.add(sha256(featureBytes(result.features)));
    } else {
      assert.deepEqual([result.id, result.error.reason], [42, "IMAGE_DAMAGED"]);
    }
  }
  assert.equal(id, images.length);
  assert.equal(seen.size, 1);
});

test("raw pixels have the features of a file with those pixels", async () => {
  const [widthPx, heightPx] = [31, 17];
  const pixels = Uint8Array.from({ length: widthPx * heightPx * 3 }, (_, index) => (index * 7) % 256);
  const stream = client.streamDeferredCpu({ preset: PRESET, dataType: DataType.FLOAT32 });
  const result = await only(stream.map([{ pixels, widthPx, heightPx, format: PixelFormat.RGB8 }]));
  const stored = `${folder}/pixels.bmp`;
  writeFileSync(stored, bitmap(pixels, widthPx, heightPx));
  assert.equal(sha256(featureBytes(result.features)), pythonSays(server.address, stored)["sha256"]);
});

test("a wrong config is refused with every wrong field", async () => {
  const stream = client.streamDeferredCpu({
    config: { case: "kimi", value: { patchSize: 0 } },
    dataType: DataType.FLOAT32,
  });
  await assert.rejects(
    only(stream.map([])),
    (error: { code: string; reason: string; violations: { field: string }[] }) => {
      assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", "CONFIG_INVALID"]);
      const required = KimiConfigSchema.fields.slice(0, 4).map((field) => `config.processor.kimi.${field.name}`);
      for (const field of required) {
        assert.ok(
          error.violations.some((violation) => violation.field === field),
          `Expected ${field} among the wrong fields`,
        );
      }
      return true;
    },
  );
});

test("every preset's config, said as a typed one, is the same config and gives the same plan", async () => {
  const sizes = [{ widthPx: 640, heightPx: 427 }];
  const dataType = DataType.BFLOAT16;
  const families = new Set<string>();
  for (const { name: preset, processor, configSha256 } of (await client.getCapabilities()).presets) {
    const source = processor?.source;
    assert.ok(source?.case !== undefined && source.case !== "preset" && source.case !== "checkpoint");
    families.add(source.case);
    const expected = await client.plan(sizes, { preset, dataType });
    for (const config of [source, processor!]) {
      const planned = await client.plan(sizes, { config, dataType });
      assert.deepEqual(planned.configSha256, configSha256);
      assert.deepEqual(planned.images, expected.images);
      assert.notEqual(planned.images[0]?.plan, undefined);
    }
  }
  const arms = ProcessorConfigSchema.oneofs[0]!.fields.map(({ localName }) => localName);
  assert.deepEqual([...families, "checkpoint", "preset"].sort(), arms.sort());
});

test("a typed config, and another alpha than its own, make the features that they say", async () => {
  const presets = (await client.getCapabilities()).presets;
  const config = presets.find(({ name }) => name === "siglip-so400m-14-224")!.processor!;
  const image = { pixels: Uint8Array.of(255, 0, 0, 0), widthPx: 1, heightPx: 1, format: PixelFormat.RGBA8 };
  const features = async (alphaPolicy: AlphaPolicy): Promise<Set<number>> => {
    const options = { config, alphaPolicy, dataType: DataType.UINT8 } as const;
    return new Set((await only(client.streamDeferredCpu(options).map([image]))).features);
  };
  assert.deepEqual([...(await features(AlphaPolicy.DROP))].sort(), [0, 255]);
  assert.deepEqual([...(await features(AlphaPolicy.WHITE))], [255]);
});

test("a server with TLS and tokens lets in who has both, and a token that is replaced counts at the next call", async () => {
  const { authority, certificate, privateKey } = makeCertificates(`${folder}/tls`, "127.0.0.1");
  const [known, own] = [`${folder}/known`, `${folder}/own`];
  const [first, second] = ["first-of-two-tokens", "second-of-two-tokens"];
  writeFileSync(known, first, { mode: 0o600 });
  writeFileSync(own, first);
  const encryption = ["--tls-cert", certificate, "--tls-key", privateKey, "--token-file", known];
  const guarded = await startServer("127.0.0.1:0", ...encryption);
  const target = guarded.address;
  const tls = { rootCertificates: { file: authority } };
  const guest = createClient({ target, tls, token: { file: own } });
  const stranger = createClient({ target, tls });
  const opened = (client: Client): Promise<unknown> =>
    client.streamDeferredCpu({ preset: PRESET, dataType: DataType.UINT8 }).map([]).next();
  const refused = { name: "StreamError", code: "UNAUTHENTICATED", reason: "CREDENTIALS_INVALID", retryable: false };
  try {
    await opened(guest);
    await guest.getCapabilities();
    await assert.rejects(opened(stranger), refused);
    await assert.rejects(stranger.getCapabilities(), refused);
    writeFileSync(known, second);
    await assert.rejects(opened(guest), refused);
    writeFileSync(own, second);
    await opened(guest);
    await guest.plan([{ widthPx: 1, heightPx: 1 }], { preset: PRESET });
  } finally {
    guest.close();
    stranger.close();
    await guarded.stop();
  }
});

test("a plan from sizes alone is the plan that the image gets, and ranks share the patches", async () => {
  const { plan } = await photograph(DataType.FLOAT32);
  const sizes = [plan.originalSize, { widthPx: 640, heightPx: 480 }];
  const reply = await client.plan(sizes, { preset: PRESET, dataType: DataType.FLOAT32, encoderRankCount: 2 });
  assert.deepEqual(reply.images[0]?.plan, plan);
  assert.deepEqual([...new Set(reply.images.map((image) => image.encoderRank))].sort(), [0, 1]);
  const patches = reply.images.map((image) => image.plan!.gridThw![1] * image.plan!.gridThw![2]);
  assert.equal(
    reply.encoderRanks.reduce((sum, rank) => sum + rank.patchCount, 0),
    patches[0]! + patches[1]!,
  );
  const [tooLarge] = (await client.plan([{ widthPx: 70_000, heightPx: 1 }], { preset: PRESET })).images;
  assert.equal(tooLarge?.error?.reason, "IMAGE_TOO_LARGE");
});

test("capabilities name every path, and why one is missing", async () => {
  const { paths, presets, limits, imageFormats } = await client.getCapabilities({ timeoutMs: 30_000 });
  assert.deepEqual(paths.map(({ name }) => name).sort(), ["DEFERRED_CPU", "DEFERRED_CUDA", "LOCAL"]);
  const cuda = paths.find(({ name }) => name === "DEFERRED_CUDA");
  assert.ok(cuda !== undefined && !cuda.available && cuda.unavailableReason !== "");
  assert.ok(presets.some(({ name }) => name === PRESET));
  assert.ok(limits.maxUnfinishedBytes > 0 && imageFormats.includes("JPEG"));
});

test("a path whose device is missing is refused, and never becomes another", async () => {
  const stream = client.streamDeferredCuda({ preset: PRESET, dataType: DataType.FLOAT32 });
  await assert.rejects(stream.map([readFileSync(OTHER)]).next(), {
    code: "FAILED_PRECONDITION",
    reason: "DEVICE_UNAVAILABLE",
  });
});

test("a server that stops has its streams moved, and every image its result", async () => {
  const first = await startServer(`unix:${folder}/restarted`);
  const moving = createClient({ target: first.address });
  let second: Promise<Server> | undefined;
  const photo = readFileSync(OTHER);
  const images = async function* (): AsyncGenerator<Uint8Array> {
    yield photo;
    yield photo;
    await first.stop();
    second = startServer(first.address);
    await second;
    yield photo;
  };
  try {
    const ids: number[] = [];
    for await (const result of moving.streamDeferredCpu({ preset: PRESET, dataType: DataType.UINT8 }).map(images())) {
      assert.ok(result.ok);
      ids.push(result.id);
    }
    assert.deepEqual(ids, [1, 2, 3]);
  } finally {
    moving.close();
    await (await second)?.stop();
  }
});

test("the conformance program gives every contract vector its expected outcome, and ends with its input", async () => {
  const vectors = loadVectors();
  const program = spawn(process.execPath, [`${PACKAGE}dist/conformance/main.js`], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise((resolve) => program.on("exit", resolve));
  program.stdin.end(vectors.map((vector) => `${JSON.stringify({ address: server.address, vector })}\n`).join(""));
  const outcomes: Outcome[] = [];
  for await (const line of createInterface({ input: program.stdout })) {
    outcomes.push(JSON.parse(line) as Outcome);
  }
  assert.equal(await exited, 0);
  assert.deepEqual(
    outcomes.map(({ name }) => name),
    vectors.map(({ name }) => name),
  );
  const wrong = vectors.flatMap((vector, index) =>
    mismatches(vector, outcomes[index]!).map((text) => `${vector.name}: ${text}`),
  );
  assert.deepEqual(wrong, []);
  assert.ok(vectors.length > 50, `Expected the contract's vectors, got ${vectors.length}`);
});

test("a vector that expects something else does not match", async () => {
  const [vector] = loadVectors().filter(({ name }) => name === "cpu_happy_path");
  assert.ok(vector !== undefined);
  const status = { code: "OK", message: "", reason: "", domain: "", violations: [] };
  assert.notDeepEqual(mismatches(vector, { name: vector.name, responses: [], status }), []);
  assert.notDeepEqual(mismatches(vector, { name: vector.name, skipped: "no reason" }), []);
});

/** What may be installed, unpacked where a project would have it, beside what it depends on. */
function installed(name: string): string {
  const project = `${folder}/${name}`;
  const packed = spawnSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], {
    cwd: PACKAGE,
    encoding: "utf8",
  });
  assert.equal(packed.status, 0, packed.stderr);
  const tarball = `${folder}/${packed.stdout.trim()}`;
  cpSync(`${PACKAGE}test/project`, project, { recursive: true });
  const options = ["install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", tarball];
  const install = spawnSync("npm", options, { cwd: project, encoding: "utf8", timeout: 300_000 });
  assert.equal(install.status, 0, install.stderr);
  return project;
}

describe("the packed tarball", () => {
  let project: string;
  before(() => {
    project = installed("project");
  });

  test("holds the package and nothing of its tests", () => {
    const listed = spawnSync("find", [".", "-type", "f"], {
      cwd: `${project}/node_modules/monopath`,
      encoding: "utf8",
    });
    const files = listed.stdout.trim().split("\n");
    assert.ok(files.includes("./LICENSE") && files.includes("./dist/src/index.d.ts"));
    assert.deepEqual(
      files.filter((file) => !/^\.\/(dist\/src\/|LICENSE$|README\.md$|package\.json$)/.test(file)),
      [],
    );
  });

  test("runs the README's stream as it stands, from plain JavaScript, and its process ends by itself", () => {
    const [snippet] = /(?<=^```js\n)[^]*?(?=^```$)/m.exec(readFileSync(`${PACKAGE}README.md`, "utf8")) ?? [];
    assert.ok(snippet !== undefined && snippet.trimEnd().split("\n").length < 40);
    writeFileSync(`${project}/stream.mjs`, snippet);
    const damaged = `${folder}/damaged.jpg`;
    writeFileSync(damaged, readFileSync(PHOTOGRAPH).subarray(0, 5000));
    const command = ["stream.mjs", server.address, PHOTOGRAPH, damaged, OTHER];
    const run = spawnSync(process.execPath, command, { cwd: project, encoding: "utf8", timeout: 120_000 });
    assert.equal(run.status, 0, run.stderr);
    const [one, two, three, batch] = run.stdout.split("\n");
    const expected = (file: string): string => {
      const told = pythonSays(server.address, file, "--preset", "kimi-k3", "--dtype", "bfloat16");
      return [(told["grid_thw"] as number[]).join("x"), told["token_count"], told["sha256"]].join(" ");
    };
    assert.equal(one, `1 ${expected(PHOTOGRAPH)}`);
    assert.match(two!, /^2 IMAGE_DAMAGED /);
    assert.equal(three, `3 ${expected(OTHER)}`);
    assert.match(batch!, /^for the encoder: /);
    // The same text, as strict TypeScript.
    writeFileSync(`${project}/stream.ts`, snippet);
  });

  test("compiles and runs from strict TypeScript, the README's other texts too, and refuses what its types refuse", () => {
    const texts = readFileSync(`${PACKAGE}README.md`, "utf8").match(/(?<=^```ts\n)[^]*?(?=^```$)/gm) ?? [];
    assert.equal(texts.length, 2);
    texts.forEach((text, index) => writeFileSync(`${project}/readme${index + 1}.ts`, text));
    symlinkSync(`${PACKAGE}node_modules/@types`, `${project}/node_modules/@types`);
    const tsc = spawnSync(process.execPath, [`${PACKAGE}node_modules/typescript/bin/tsc`, "-p", "."], {
      cwd: project,
      encoding: "utf8",
    });
    assert.equal(tsc.status, 0, tsc.stdout);
    const run = spawnSync(process.execPath, ["out/use.js", server.address, OTHER], {
      cwd: project,
      encoding: "utf8",
      timeout: 120_000,
    });
    assert.equal(run.status, 0, run.stderr);
    assert.equal(
      run.stdout.trim(),
      pythonSays(server.address, OTHER, "--preset", PRESET, "--dtype", "float16")["sha256"],
    );
  });
});

test("the command line that the expectations come from is there", () => {
  assert.equal(spawnSync(MONOPATH, ["--version"], { encoding: "utf8" }).status, 0);
});

/** An uncompressed Windows bitmap of RGB pixels. */
function bitmap(pixels: Uint8Array, widthPx: number, heightPx: number): Buffer {
  const lineBytes = Math.ceil((widthPx * 3) / 4) * 4;
  const file = Buffer.alloc(54 + lineBytes * heightPx);
  file.write("BM");
  file.writeUInt32LE(file.length, 2);
  file.writeUInt32LE(54, 10);
  file.writeUInt32LE(40, 14);
  file.writeInt32LE(widthPx, 18);
  file.writeInt32LE(-heightPx, 22); // Top to bottom.
  file.writeUInt16LE(1, 26);
  file.writeUInt16LE(24, 28);
  for (let y = 0; y < heightPx; y++) {
    for (let x = 0; x < widthPx; x++) {
      const [red, green, blue] = pixels.subarray((y * widthPx + x) * 3);
      file.set([blue!, green!, red!], 54 + y * lineBytes + x * 3);
    }
  }
  return file;
}
