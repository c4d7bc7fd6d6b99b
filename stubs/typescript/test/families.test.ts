import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { processorConfig, type ProcessorOptions } from "../src/config.js";
import {
  KimiConfigSchema,
  ProcessorConfigSchema,
  QwenVlConfigSchema,
  type ProcessorConfig,
} from "../src/gen/monopath/v1/config_pb.js";
import { AlphaPolicy, OrientationPolicy, ResampleKernel, type FamilyConfig } from "../src/index.js";

const MEAN = { red: 0.5, green: 0.25, blue: 0.125 };
const RESIZE = { case: "shortestEdge", value: { lengthPx: 224 } } as const;

/** A field or two of each family of the contract. */
const FAMILIES: readonly FamilyConfig[] = [
  { case: "kimi", value: { patchSize: 14, imageMean: MEAN } },
  { case: "kimiVl", value: { inTokenLimit: 4096, padInput: false } },
  { case: "qwenVl", value: { minPixels: 3136, imageStd: MEAN } },
  { case: "glmVl", value: { temporalPatchSize: 2, mergeSize: 2 } },
  { case: "glmNext", value: { patchExpandFactor: 2 } },
  { case: "fixedSize", value: { resize: RESIZE, cropSize: { widthPx: 224, heightPx: 224 } } },
  { case: "internVl", value: { tileSize: 448, hasThumbnail: true } },
];

/** What was said of a source, as plain values. */
function said({ source }: ProcessorConfig): unknown {
  const plain = (value: object): object =>
    Object.fromEntries(
      Object.entries(value)
        .filter(([name]) => name !== "$typeName")
        .map(([name, inner]: [string, unknown]) => [name, typeof inner === "object" && inner ? plain(inner) : inner]),
    );
  return plain(source);
}

test("a typed config of each family of the contract is said as it was given", () => {
  const [source] = ProcessorConfigSchema.oneofs;
  const families = source!.fields
    .map(({ localName }) => localName)
    .filter((name) => !/^(preset|checkpoint)$/.test(name));
  assert.deepEqual(FAMILIES.map((config) => config.case).sort(), families.sort());
  for (const config of FAMILIES) {
    assert.deepEqual(said(processorConfig({ config })), config);
  }
});

test("a family's message is copied, and so is the whole processor that a server answers with", () => {
  const message = create(QwenVlConfigSchema, { mergeSize: 2 });
  const ofFamily = processorConfig({ config: { case: "qwenVl", value: message }, alphaPolicy: AlphaPolicy.WHITE });
  assert.deepEqual(said(ofFamily), { case: "qwenVl", value: { mergeSize: 2, alphaPolicy: AlphaPolicy.WHITE } });
  const again = processorConfig({ config: ofFamily, alphaPolicy: AlphaPolicy.DROP });
  assert.deepEqual(said(again), { case: "qwenVl", value: { mergeSize: 2, alphaPolicy: AlphaPolicy.DROP } });
  assert.deepEqual(said(ofFamily), { case: "qwenVl", value: { mergeSize: 2, alphaPolicy: AlphaPolicy.WHITE } });
  assert.equal(message.alphaPolicy, undefined);
});

test("kernel, orientation and alpha replace what a config says, in each of its forms", () => {
  const instead = {
    resampleKernel: ResampleKernel.PILLOW_11,
    orientationPolicy: OrientationPolicy.APPLY,
    alphaPolicy: AlphaPolicy.WHITE,
  };
  const config = { case: "glmVl", value: { resampleKernel: ResampleKernel.ATEN_U8 } } as const;
  assert.deepEqual(said(processorConfig({ config, ...instead })), { case: "glmVl", value: instead });
  const preset = { case: "preset", value: { name: "a", ...instead } };
  assert.deepEqual(said(processorConfig({ preset: "a", ...instead })), preset);
  const checkpoint = { case: "checkpoint", value: { preprocessorConfigJson: "{}", ...instead } };
  assert.deepEqual(said(processorConfig({ checkpointJson: "{}", ...instead })), checkpoint);
});

test("a choice of alpha is refused where the family of a typed config has none", () => {
  for (const name of ["kimi", "kimiVl"] as const) {
    const config = { case: name, value: { patchSize: 14 } };
    assert.throws(
      () => processorConfig({ config, alphaPolicy: AlphaPolicy.WHITE }),
      new TypeError(`Expected no alphaPolicy for the family ${name}, got 2`),
    );
  }
});

test("from plain JavaScript a config that would lose a part in silence is a TypeError that says where", () => {
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    [{ patchSize: 14 }, /config\.case to be one of kimi, qwenVl, kimiVl, glmVl, .*, got none/],
    [{ case: "qwen_vl", value: {} }, /got "qwen_vl"/],
    [{ case: "preset", value: { name: "kimi-k3" } }, /got "preset"/],
    [null, /got none/],
    [{ case: "kimi" }, /config\.value to be an object of patchSize, mergeKernelSize, .*, got undefined/],
    [{ case: "kimi", value: { patch_size: 14 } }, /config\.value to have no more than patchSize, .*, got patch_size/],
    [{ case: "kimi", value: { mergeSize: 2 } }, /got mergeSize/],
    [
      { case: "kimi", value: create(QwenVlConfigSchema) },
      /of monopath\.v1\.KimiConfig, got monopath\.v1\.QwenVlConfig/,
    ],
    [{ case: "kimi", value: { imageMean: [0.5, 0.5, 0.5] } }, /config\.value\.imageMean .* red, green, blue, got 0/],
    [{ case: "fixedSize", value: { resize: { exactSize: {} } } }, /config\.value\.resize\.case .* got none/],
    [
      { case: "fixedSize", value: { resize: { case: "exactSize", value: { width: 1 } } } },
      /config\.value\.resize\.value to have no more than widthPx, heightPx, got width/,
    ],
    [create(ProcessorConfigSchema), /config to say a processor, got an empty ProcessorConfig/],
    [create(KimiConfigSchema), /config\.case to be one of/],
  ];
  for (const [config, message] of wrong) {
    assert.throws(() => processorConfig({ config } as ProcessorOptions), { name: "TypeError", message });
  }
});

test("a field that is undefined is one that is not said, and so is a choice of none", () => {
  const value = { patchSize: undefined, cropSize: undefined, resize: { case: undefined } };
  const config = { case: "fixedSize", value } as unknown as FamilyConfig;
  assert.deepEqual(said(processorConfig({ config })), { case: "fixedSize", value: { resize: { case: undefined } } });
});
