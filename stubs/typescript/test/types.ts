// What must compile, and what must not: `tsc` fails on each "@ts-expect-error" that has nothing to refuse. Never run.

import { create } from "@bufbuild/protobuf";

import { KimiConfigSchema, QwenVlConfigSchema } from "../src/gen/monopath/v1/config_pb.js";
import { DeferredCpuItemSchema, type DeferredCpuItem } from "../src/gen/monopath/v1/deferred_cpu_pb.js";
import { DeferredCudaItemSchema } from "../src/gen/monopath/v1/deferred_cuda_pb.js";
import {
  AlphaPolicy,
  concatenate,
  createClient,
  DataType,
  type Completed,
  type Family,
  type FamilyConfig,
  type FeatureStream,
  type ImageItem,
  type LocalItem,
  type Result,
} from "../src/index.js";

const client = createClient({ target: "127.0.0.1:1" });
const cpu = client.streamDeferredCpu({ preset: "kimi-k3", dataType: DataType.BFLOAT16 });
const cuda = client.streamDeferredCuda({ preset: "kimi-k3", dataType: DataType.BFLOAT16, deviceUuid: "" });
const local = client.streamLocal({ preset: "kimi-k3", dataType: DataType.FLOAT32 });
const image = new Uint8Array();

declare const cpuItem: ImageItem<"DEFERRED_CPU">;
declare const cudaItem: ImageItem<"DEFERRED_CUDA">;
declare const localItem: LocalItem;
declare const cpuResult: Completed<"DEFERRED_CPU", DataType.BFLOAT16>;
declare const cudaResult: Completed<"DEFERRED_CUDA", DataType.BFLOAT16>;
declare const otherTypeResult: Completed<"DEFERRED_CPU", DataType.FLOAT16>;

// Items of one path on the stream of another.
void cpu.map([image, cpuItem, { pixels: image, widthPx: 0, heightPx: 0, format: 1 }]);
void cuda.map([image, cudaItem, { path: "DEFERRED_CUDA", image, label: "one" }]);
void local.map([localItem]);
// @ts-expect-error
void cpu.map([cudaItem]);
// @ts-expect-error
void cuda.map([cpuItem]);
// @ts-expect-error
void cpu.map([{ path: "DEFERRED_CUDA", image }]);
// @ts-expect-error
void cpu.map([localItem]);
// @ts-expect-error
void local.map([cpuItem]);
// @ts-expect-error
void local.map([image]);
// @ts-expect-error: bytes are one image, not a list of them
void cpu.map(image);

// Results of one path on the stream of another, or among the results of another.
// @ts-expect-error
void local.map([cpuResult]);
// @ts-expect-error
void cuda.map([cpuResult]);
const cpuResults: Completed<"DEFERRED_CPU">[] = [cpuResult];
// @ts-expect-error
cpuResults.push(cudaResult);
// @ts-expect-error
const cudaResults: Result<"DEFERRED_CUDA">[] = [cpuResult];
// @ts-expect-error
const stream: FeatureStream<"DEFERRED_CPU"> = cuda;

// One batch of two paths, or of two element types.
const { path, features }: { path: "DEFERRED_CPU"; features: Uint16Array } = concatenate([cpuResult, cpuResult]);
// @ts-expect-error
void concatenate([cpuResult, cudaResult]);
// @ts-expect-error
void concatenate([cpuResult, otherTypeResult]);

// The element type decides the array; the features are there only where there is no error.
async function read(): Promise<void> {
  for await (const result of local.map([])) {
    // @ts-expect-error
    void result.features;
    if (result.ok) {
      const values: Float32Array = result.features;
      // @ts-expect-error
      const bits: Uint16Array = result.features;
      // @ts-expect-error
      void result.error.reason;
      void [values, bits];
    } else {
      const reason: string = result.error.reason;
      void reason;
    }
  }
}

// Exactly one processor, and an element type.
// @ts-expect-error
void client.streamLocal({ dataType: DataType.FLOAT32 });
// @ts-expect-error
void client.streamLocal({ preset: "kimi-k3", checkpointJson: "{}", dataType: DataType.FLOAT32 });
// @ts-expect-error
void client.streamLocal({ preset: "kimi-k3", dataType: DataType.UNSPECIFIED });
// @ts-expect-error
void client.streamLocal({ preset: "kimi-k3" });

// A typed config is of one family: it takes neither the fields nor the message of another one.
const dataType = DataType.FLOAT32;
void client.streamLocal({ config: { case: "qwenVl", value: { mergeSize: 2, minPixels: 3136 } }, dataType });
void client.streamLocal({ config: { case: "internVl", value: { tileSize: 448, hasThumbnail: false } }, dataType });
const exactSize = { case: "exactSize", value: { widthPx: 224, heightPx: 224 } } as const;
void client.streamLocal({ config: { case: "fixedSize", value: { resize: exactSize } }, dataType });
void client.streamLocal({ config: { case: "kimi", value: create(KimiConfigSchema) }, dataType });
void client.plan([], { config: { case: "glmNext", value: { maxImageTokens: 4096 } }, alphaPolicy: AlphaPolicy.WHITE });
// @ts-expect-error
void client.streamLocal({ config: { case: "kimi", value: { mergeSize: 2 } }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { case: "qwenVl", value: { mergeKernelSize: 2 } }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { case: "kimi", value: create(QwenVlConfigSchema) }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { case: "kimiVl", value: create(KimiConfigSchema) }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { case: "fixedSize", value: { resize: exactSize.value } }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { case: "preset", value: { name: "kimi-k3" } }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { case: "kimi" }, dataType });
// @ts-expect-error
void client.streamLocal({ config: { value: { patchSize: 14 } }, dataType });
// @ts-expect-error
const family: Family = "checkpoint";

// Every family can be told apart: a new one in the contract does not compile here before it has its own line.
function sidePx(config: FamilyConfig): number | undefined {
  switch (config.case) {
    case "kimi":
    case "kimiVl":
    case "qwenVl":
    case "glmVl":
    case "glmNext":
    case "fixedSize":
      return config.value.patchSize;
    case "internVl":
      return config.value.tileSize;
    default:
      return config satisfies never;
  }
}

// That a new one would not: two families stand for those of a newer contract.
function forgetsTwo(config: FamilyConfig): string {
  switch (config.case) {
    case "kimi":
    case "kimiVl":
    case "qwenVl":
    case "glmVl":
    case "fixedSize":
      return config.case;
    default:
      // @ts-expect-error
      return config satisfies never;
  }
}

// The generated messages of two paths are two types.
const cpuMessage: DeferredCpuItem = create(DeferredCpuItemSchema);
// @ts-expect-error
const cudaMessage: DeferredCpuItem = create(DeferredCudaItemSchema);

void [cudaResults, family, sidePx, forgetsTwo, stream, path, features, read, cpuMessage, cudaMessage];
