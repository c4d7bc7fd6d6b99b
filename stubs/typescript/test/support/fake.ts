// A server of the tests' own in this process, which does what a script says: also what no real one would.

import { createSecureServer, createServer, type SecureServerOptions, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";

import { ResampleKernel } from "../../src/gen/monopath/v1/config_pb.js";
import { Route, type StreamLimitsSchema } from "../../src/gen/monopath/v1/event_pb.js";
import { PreprocessingPath } from "../../src/gen/monopath/v1/path_pb.js";
import {
  PreprocessingService,
  StreamDeferredCpuResponseSchema,
  type StreamDeferredCpuRequest,
} from "../../src/gen/monopath/v1/service_pb.js";
import { DataType } from "../../src/gen/monopath/v1/tensor_pb.js";

export type Reply = MessageInitShape<typeof StreamDeferredCpuResponseSchema>;
export type Requests = AsyncIterator<StreamDeferredCpuRequest>;
/** Plays the server's part of one stream. `stream` counts the streams from 1. */
export type Script = (requests: Requests, context: HandlerContext, stream: number) => AsyncIterable<Reply>;

export interface Fake {
  readonly target: string;
  close(): Promise<void>;
}

export interface FakeOptions {
  readonly tls?: SecureServerOptions;
  /** Path of a unix socket. */
  readonly socket?: string;
}

const DIGEST = new Uint8Array(32).fill(7);
const PATH = PreprocessingPath.DEFERRED_CPU;
/** Elements of each fake item's features: one patch of one pixel. */
export const FEATURES = Uint8Array.of(1, 2, 3);

/** Starts one, at a port of the loopback address, or at a unix socket. With `tls` it is encrypted. */
export async function fakeServer(script: Script, { tls, socket }: FakeOptions = {}): Promise<Fake> {
  let streams = 0;
  const sessions = new Set<ServerHttp2Session>();
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.service(PreprocessingService, {
        streamDeferredCpu: (requests, context) => script(requests[Symbol.asyncIterator](), context, ++streams),
      });
    },
  });
  const server = tls === undefined ? createServer(handler) : createSecureServer(tls, handler);
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => undefined); // Clients that go away are what some tests are about.
    session.on("close", () => sessions.delete(session));
  });
  await new Promise<void>((resolve) => {
    server.listen(socket === undefined ? { port: 0, host: "127.0.0.1" } : { path: socket }, resolve);
  });
  return {
    target: socket === undefined ? `127.0.0.1:${(server.address() as AddressInfo).port}` : `unix:${socket}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      sessions.forEach((session) => session.destroy());
      await closed;
    },
  };
}

/** The id of the next item; undefined at the half-close. */
export async function nextItem(requests: Requests): Promise<number | undefined> {
  const { done, value } = await requests.next();
  if (done === true) {
    return undefined;
  }
  if (value.payload.case !== "item") {
    throw new Error(`Expected an item, got ${String(value.payload.case)}`);
  }
  return value.payload.value.id;
}

/** Takes the config. */
export async function config(requests: Requests): Promise<void> {
  const { value } = await requests.next();
  if ((value as StreamDeferredCpuRequest | undefined)?.payload.case !== "config") {
    throw new Error("Expected a config first");
  }
}

export function ready(limits: MessageInitShape<typeof StreamLimitsSchema> = {}, digest = DIGEST): Reply {
  const defaults = {
    maxUnfinishedItems: 64,
    maxUnfinishedBytes: 1n << 28n,
    maxFeatureBytes: 1 << 20,
    maxRequestBytes: 1 << 20,
    chunkBytes: 1 << 20,
  };
  const value = { path: PATH, configSha256: digest, limits: { ...defaults, ...limits }, serverVersion: "0" };
  return { payload: { case: "ready", value } };
}

export function plan(id: number): Reply {
  const size = { widthPx: 1, heightPx: 1 };
  const features = { dataType: DataType.UINT8, shape: [1n, 3n, 1n, 1n], sizeBytes: 3 };
  const geometry = { originalSize: size, resizedSize: size, padding: {}, gridThw: { t: 1, h: 1, w: 1 } };
  return { payload: { case: "plan", value: { id, path: PATH, plan: { ...geometry, tokenCount: 1, features } } } };
}

export function features(id: number, data: Uint8Array = FEATURES, offsetBytes = 0): Reply {
  return { payload: { case: "features", value: { id, location: { case: "chunk", value: { offsetBytes, data } } } } };
}

export function completion(id: number, label = ""): Reply {
  const provenance = {
    path: PATH,
    configSha256: DIGEST,
    resampleKernel: ResampleKernel.PILLOW_13,
    route: Route.HOST,
  };
  return { payload: { case: "completion", value: { id, label, provenance } } };
}

export function summary(count: number): Reply {
  return { payload: { case: "summary", value: { acceptedCount: count, completedCount: count } } };
}

/** Several responses as one message. */
export function group(...responses: Reply[]): Reply {
  return { payload: { case: "group", value: { responses } } };
}

/** All of a good item. */
export function answer(id: number): Reply[] {
  return [plan(id), features(id), completion(id)];
}

/** A message of a newer server: an arm that this contract does not have, with so many bytes in it. */
export function unknownArm(size = 0): Reply {
  const message = create(StreamDeferredCpuResponseSchema);
  const data = new BinaryWriter().bytes(new Uint8Array(size)).finish();
  message.$unknown = [{ no: 99, wireType: WireType.LengthDelimited, data }];
  return message;
}

/** A whole good stream. */
export const goodStream: Script = (requests) => good(requests);

/** A whole good stream with something more behind its ready. */
export async function* good(requests: Requests, ...between: Reply[]): AsyncGenerator<Reply> {
  await config(requests);
  yield ready();
  yield* between;
  let count = 0;
  for (let id = await nextItem(requests); id !== undefined; id = await nextItem(requests)) {
    yield* answer(id);
    count++;
  }
  yield summary(count);
}
