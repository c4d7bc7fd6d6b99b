import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import { ImagePlanSchema, type ImagePlan as ImagePlanMessage } from "../src/gen/monopath/v1/geometry_pb.js";
import type { LocalItem as LocalItemMessage } from "../src/gen/monopath/v1/local_pb.js";
import { concatenate, DataType, type Completed, type LocalItem } from "../src/index.js";
import { outgoingFeatures } from "../src/inputs.js";
import { imagePlan, type ImagePlan } from "../src/records.js";

const SIZE = { widthPx: 9, heightPx: 6 };
const TILES = { columns: 3, rows: 2, hasThumbnail: true, tileSizePx: 4 };

/** A plan as a server says it; where nothing else is given, of a family whose grid is no patch grid. */
function planOf(fields: Exclude<MessageInitShape<typeof ImagePlanSchema>, ImagePlanMessage>): ImagePlan {
  const common = { originalSize: SIZE, resizedSize: SIZE, padding: {}, gridThw: {} };
  return imagePlan(create(ImagePlanSchema, { ...common, ...fields }));
}

test("a plan of patches has their grid, and nothing else that rows could be", () => {
  const { gridThw, tileGrid, fixedSize, crop } = planOf({ gridThw: { t: 1, h: 4, w: 6 } });
  assert.deepEqual([gridThw, tileGrid, fixedSize, crop], [[1, 4, 6], undefined, undefined, undefined]);
});

test("a plan of tiles has them, and no patch grid", () => {
  const { gridThw, tileGrid, fixedSize } = planOf({ geometry: { case: "tileGrid", value: TILES } });
  assert.deepEqual([gridThw, tileGrid, fixedSize], [undefined, TILES, undefined]);
});

test("a plan of one size for all images has it, and a crop that may begin before the image", () => {
  const window = { leftPx: 2, topPx: -1, widthPx: 5, heightPx: 7 };
  const plan = planOf({ geometry: { case: "fixedSize", value: { widthPx: 5, heightPx: 7 } }, crop: window });
  assert.deepEqual([plan.gridThw, plan.tileGrid], [undefined, undefined]);
  assert.deepEqual([plan.fixedSize, plan.crop], [{ widthPx: 5, heightPx: 7 }, window]);
});

test("a plan of a kind that only a newer server knows has no patch grid either", () => {
  const { gridThw, tileGrid, fixedSize, tokenCount } = planOf({ tokenCount: 7 });
  assert.deepEqual([gridThw, tileGrid, fixedSize, tokenCount], [undefined, undefined, undefined, 7]);
});

/** The announcement of finished features. */
function announced(fields: Partial<LocalItem>): LocalItemMessage {
  const pixels = { features: new Uint8Array(6), dataType: DataType.UINT8, shape: [2, 3, 1, 1] } as const;
  const outgoing = outgoingFeatures({ path: "LOCAL", ...pixels, originalSize: SIZE, tokenCount: 14, ...fields });
  const [request] = outgoing.requests(1);
  assert.ok(request?.payload.case === "item");
  return request.payload.value;
}

test("finished tiles are announced with an empty patch grid, which the contract wants", () => {
  const { gridThw, tileGrid, tokenCount } = announced({ tileGrid: TILES });
  assert.deepEqual([gridThw?.t, gridThw?.h, gridThw?.w, tokenCount], [0, 0, 0, 14]);
  assert.deepEqual([tileGrid?.columns, tileGrid?.rows, tileGrid?.hasThumbnail, tileGrid?.tileSizePx], [3, 2, true, 4]);
});

test("finished patches are announced with their grid, and without tiles", () => {
  const { gridThw, tileGrid } = announced({ gridThw: [1, 1, 2] });
  assert.deepEqual([gridThw?.t, gridThw?.h, gridThw?.w, tileGrid], [1, 1, 2, undefined]);
});

test("a batch of tiles has no patch grids, and says how many rows each image has", () => {
  const plan = planOf({ geometry: { case: "tileGrid", value: TILES } });
  const result = (id: number, rows: number): Completed<"DEFERRED_CPU", DataType.UINT8> => ({
    ok: true,
    id,
    label: "",
    path: "DEFERRED_CPU",
    dataType: DataType.UINT8,
    features: new Uint8Array(rows * 3).fill(id),
    shape: [rows, 3, 1, 1],
    plan,
    gridThw: plan.gridThw,
    tokenCount: rows,
    provenance: { configSha256: new Uint8Array(32) } as Completed<"DEFERRED_CPU">["provenance"],
    timings: { planningMs: 0, queuedMs: 0, decodingMs: 0, transformingMs: 0 },
    cache: undefined,
  });
  const batch = concatenate([result(1, 2), result(2, 1)]);
  assert.deepEqual([batch.shape, batch.gridThws, batch.rowCounts], [[3, 3, 1, 1], [], [2, 1]]);
  assert.deepEqual([...batch.features], [1, 1, 1, 1, 1, 1, 2, 2, 2]);
});
