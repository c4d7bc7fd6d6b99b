import { create } from "@bufbuild/protobuf";
import type { CallOptions, Client as ConnectClient } from "@connectrpc/connect";

import type { OutputConfig, ProcessorConfig } from "./gen/monopath/v1/config_pb.js";
import {
  StreamDeferredCpuRequestSchema,
  StreamDeferredCudaRequestSchema,
  StreamLocalRequestSchema,
  type PreprocessingService,
} from "./gen/monopath/v1/service_pb.js";
import {
  cpuItemRequest,
  cudaItemRequest,
  outgoingFeatures,
  outgoingImage,
  type Input,
  type Outgoing,
} from "./inputs.js";
import type { Path, RequestByPath, ResponseByPath } from "./paths.js";

/** The service, as Connect calls it. */
export type Rpc = ConnectClient<typeof PreprocessingService>;

/** What one path has of its own: its method, and how its messages are made. */
export interface PathAdapter<P extends Path> {
  readonly path: P;
  call(rpc: Rpc, requests: AsyncIterable<RequestByPath[P]>, options: CallOptions): AsyncIterable<ResponseByPath[P]>;
  configRequest(processor: ProcessorConfig, output: OutputConfig): RequestByPath[P];
  /** Makes an input ready to be sent. Throws TypeError for a thing that this path does not take. */
  outgoing(input: Input<P>): Outgoing<P>;
}

export const localAdapter: PathAdapter<"LOCAL"> = {
  path: "LOCAL",
  call: (rpc, requests, options) => rpc.streamLocal(requests, options),
  configRequest: (processor, output) =>
    create(StreamLocalRequestSchema, { payload: { case: "config", value: { processor, output } } }),
  outgoing: outgoingFeatures,
};

export const deferredCpuAdapter: PathAdapter<"DEFERRED_CPU"> = {
  path: "DEFERRED_CPU",
  call: (rpc, requests, options) => rpc.streamDeferredCpu(requests, options),
  configRequest: (processor, output) =>
    create(StreamDeferredCpuRequestSchema, { payload: { case: "config", value: { processor, output } } }),
  outgoing: (input) => outgoingImage("DEFERRED_CPU", input, cpuItemRequest),
};

/** `deviceUuid` is the GPU, by its UUID; "" is the server's choice. */
export function deferredCudaAdapter(deviceUuid: string): PathAdapter<"DEFERRED_CUDA"> {
  return {
    path: "DEFERRED_CUDA",
    call: (rpc, requests, options) => rpc.streamDeferredCuda(requests, options),
    configRequest: (processor, output) =>
      create(StreamDeferredCudaRequestSchema, {
        payload: { case: "config", value: { processor, output, deviceUuid } },
      }),
    outgoing: (input) => outgoingImage("DEFERRED_CUDA", input, cudaItemRequest),
  };
}
