import { PreprocessingPath } from "./gen/monopath/v1/path_pb.js";
import type {
  StreamDeferredCpuRequest,
  StreamDeferredCpuResponse,
  StreamDeferredCudaRequest,
  StreamDeferredCudaResponse,
  StreamLocalRequest,
  StreamLocalResponse,
} from "./gen/monopath/v1/service_pb.js";

/**
 * A preprocessing path, by the name of its value in the contract's `PreprocessingPath`. Streams, items and results have
 * it as their type parameter, so that the compiler refuses a mix.
 */
export type Path = Exclude<keyof typeof PreprocessingPath, "UNSPECIFIED">;

/** What a client writes on the method of each path. */
export interface RequestByPath {
  LOCAL: StreamLocalRequest;
  DEFERRED_CUDA: StreamDeferredCudaRequest;
  DEFERRED_CPU: StreamDeferredCpuRequest;
}

/** What a server writes on the method of each path. */
export interface ResponseByPath {
  LOCAL: StreamLocalResponse;
  DEFERRED_CUDA: StreamDeferredCudaResponse;
  DEFERRED_CPU: StreamDeferredCpuResponse;
}

/** The payload of a response of any path: their arms have the same names. */
export type ResponsePayload = ResponseByPath[Path]["payload"];

/** A payload that is no group of others. */
export type SinglePayload = Exclude<ResponsePayload, { case: "group" }>;

/** Names a path that came over the wire: its number, as text, where this release does not know it. */
export function pathName(number: PreprocessingPath): string {
  return PreprocessingPath[number] ?? String(number);
}
