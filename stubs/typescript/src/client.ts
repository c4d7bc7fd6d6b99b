import { createClient as createConnectClient } from "@connectrpc/connect";

import { deferredCpuAdapter, deferredCudaAdapter, localAdapter, type PathAdapter, type Rpc } from "./adapters.js";
import { outputConfig, processorConfig, type StreamOptions } from "./config.js";
import { isFeatureDataType, type FeatureDataType } from "./features.js";
import { PreprocessingService } from "./gen/monopath/v1/service_pb.js";
import { MappedStream } from "./mapping.js";
import type { Path } from "./paths.js";
import {
  capabilities,
  planReply,
  planRequest,
  type Capabilities,
  type PlanOptions,
  type PlanReply,
} from "./planning.js";
import type { Size } from "./records.js";
import { streamErrorOf } from "./status.js";
import type { FeatureStream } from "./stream.js";
import { connectionTo, type ClientOptions } from "./transport.js";

/** What a unary call is made with. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/**
 * A client of one server, or of a proxy before several. It has one connection, which is made at the first call, and
 * again where it was lost; an idle one does not keep the process alive.
 */
export interface Client {
  /** Streams whose images the server's CPU turns into features. */
  streamDeferredCpu<D extends FeatureDataType>(options: StreamOptions<D>): FeatureStream<"DEFERRED_CPU", D>;
  /** Streams whose images the server's GPU turns into features. `deviceUuid` names one; absent: the server's choice. */
  streamDeferredCuda<D extends FeatureDataType>(
    options: StreamOptions<D> & { readonly deviceUuid?: string },
  ): FeatureStream<"DEFERRED_CUDA", D>;
  /** Streams of finished features, which the server checks and converts. */
  streamLocal<D extends FeatureDataType>(options: StreamOptions<D>): FeatureStream<"LOCAL", D>;
  /** Geometry, token counts and encoder ranks from sizes alone. Throws StreamError and ProtocolError. */
  plan(sizes: Iterable<Size>, options: PlanOptions & CallOptions): Promise<PlanReply>;
  /** What the server can do, and why it cannot do the rest. Throws StreamError and ProtocolError. */
  getCapabilities(options?: CallOptions): Promise<Capabilities>;
  /** Ends the connection and what is open on it, for good. */
  close(): void;
}

/**
 * Makes a client. Nothing is connected yet. Throws TypeError for options that cannot be, a token in plaintext beyond
 * this host among them, and what reading the files of `tls` and `token` throws.
 */
export function createClient(options: ClientOptions): Client {
  const connection = connectionTo(options);
  const rpc: Rpc = createConnectClient(PreprocessingService, connection.transport);
  return {
    streamDeferredCpu: (options) => stream(rpc, deferredCpuAdapter, options),
    streamDeferredCuda: (options) => stream(rpc, deferredCudaAdapter(options.deviceUuid ?? ""), options),
    streamLocal: (options) => stream(rpc, localAdapter, options),
    async plan(sizes, options) {
      const request = planRequest(sizes, options);
      return planReply(await called(options, (call) => rpc.plan(request, call)), request.images.length);
    },
    async getCapabilities(options = {}) {
      return capabilities(await called(options, (call) => rpc.getCapabilities({}, call)));
    },
    close: () => connection.close(),
  };
}

function stream<P extends Path, D extends FeatureDataType>(
  rpc: Rpc,
  adapter: PathAdapter<P>,
  options: StreamOptions<D>,
): FeatureStream<P, D> {
  const { dataType } = options;
  if (!isFeatureDataType(dataType)) {
    throw new TypeError(`Expected dataType to be one of DataType, got ${String(dataType)}`);
  }
  return new MappedStream({
    rpc,
    adapter,
    processor: processorConfig(options),
    output: outputConfig(options),
    dataType,
  });
}

async function called<T>({ signal, timeoutMs }: CallOptions, call: (options: CallOptions) => Promise<T>): Promise<T> {
  signal?.throwIfAborted();
  try {
    return await call({
      ...(signal && { signal }),
      ...(timeoutMs !== undefined && { timeoutMs: Math.max(1, timeoutMs) }),
    });
  } catch (error) {
    throw signal?.aborted === true ? signal.reason : streamErrorOf(error);
  }
}
