// What must compile, and what must not: `tsc` fails on each "@ts-expect-error" that has nothing to refuse. Never run.

import { create } from "@bufbuild/protobuf";

import { DeferredCpuItemSchema, type DeferredCpuItem } from "../src/gen/monopath/v1/deferred_cpu_pb.js";
import { DeferredCudaItemSchema } from "../src/gen/monopath/v1/deferred_cuda_pb.js";
import {
  concatenate,
  createClient,
  DataType,
  type Completed,
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

// The generated messages of two paths are two types.
const cpuMessage: DeferredCpuItem = create(DeferredCpuItemSchema);
// @ts-expect-error
const cudaMessage: DeferredCpuItem = create(DeferredCudaItemSchema);

void [cudaResults, stream, path, features, read, cpuMessage, cudaMessage];
